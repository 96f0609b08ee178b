"""Cells of workbooks as texts: dates, numbers, formulas, errors, empty cells; which sheet is read."""

import datetime
import zipfile
from pathlib import Path

import pytest

from pipelines.core.errors import InputError
from pipelines.data.formats import workbooks
from tests.support import workbook_files
from tests.support.workbook_files import Formula, Wrong

MOMENT = datetime.datetime(2026, 11, 28, 9, 30)
ROWS = [
    [],
    ["text ", "label", "day", "count", None],
    ["first", "ok", datetime.date(2026, 11, 28), 3],
    ["  two\nlines <b>", True, MOMENT, 1.5],
    [],
    ["四番目", Formula("B3", "ok"), None, Formula("1+1", 2)],
    ["fifth", Wrong("#DIV/0!"), None, Formula("1/0", Wrong("#DIV/0!"))],
    [12345678901, "no", "", 0.1],
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    sheets = {"Cover": [["only a title"]], "Secret": [["a"], ["b"]], "Data": ROWS, "More": [["x"], ["y"]]}
    workbook_files.write(tmp_path / "a.xlsx", sheets, hidden=("Secret",))
    return tmp_path / "a.xlsx"


def test_cells_become_the_texts_that_a_person_sees(file: Path) -> None:
    read = list(workbooks.records(file))
    assert read == [
        ("row 3", {"text": "first", "label": "ok", "day": "2026-11-28", "count": "3"}),
        ("row 4", {"text": "  two\nlines <b>", "label": "TRUE", "day": "2026-11-28T09:30:00", "count": "1.5"}),
        ("row 6", {"text": "四番目", "label": "ok", "day": "", "count": "2"}),
        ("row 7", {"text": "fifth", "label": "", "day": "", "count": ""}),  # as an error of a formula is read
        ("row 8", {"text": "12345678901", "label": "no", "day": "", "count": "0.1"}),
    ]


def test_merged_cells_of_a_column_have_one_value_for_their_rows(tmp_path: Path) -> None:
    rows = [["text", "label"], ["a", "ok"], ["b"], [], ["c"], ["d", "no"], ["e"], ["f"]]
    merged = ("A1:B1", "B2:B5", "A6:B6", "B7:B9")  # a title, a label of four rows, a row, cells without a value
    workbook_files.write(tmp_path / "a.xlsx", {"Data": rows}, merged=merged)
    read = [record["label"] for _, record in workbooks.records(tmp_path / "a.xlsx")]
    assert read == ["ok", "ok", "ok", "no", "", ""]


def test_a_sheet_is_chosen_by_its_name_even_if_it_is_hidden(file: Path) -> None:
    assert workbooks.sheets_with_rows(file) == ["Data", "More"]
    for name, cell in (("More", {"x": "y"}), ("Secret", {"a": "b"})):
        assert [record for _, record in workbooks.records(file, name)] == [cell]
    with pytest.raises(InputError, match=r"no sheet 'Dat' \(did you mean 'Data'\?\); there are: Cover, Data, More"):
        list(workbooks.records(file, "Dat"))
    with pytest.raises(InputError, match="no rows below the header of the sheet 'Cover'"):
        list(workbooks.records(file, "Cover"))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["a", "a"], ["1", "2"]], "row 1: two columns are named 'a'"),
        ([["a", None], ["1", "2"]], "row 1: column 2 has cells and no name"),
        ([["a"]], "no rows below the header of any sheet"),
    ],
)
def test_a_header_of_no_use_is_refused(rows: list[list[str]], message: str, tmp_path: Path) -> None:
    workbook_files.write(tmp_path / "a.xlsx", {"One": rows})
    with pytest.raises(InputError, match=message):
        list(workbooks.records(tmp_path / "a.xlsx", ""))


def test_what_is_no_workbook_is_refused_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.xlsx"
    for content in (b"", b"PK", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)):  # the last as one with a password
        file.write_bytes(content)
        with pytest.raises(InputError, match="not a readable workbook"):
            workbooks.sheets_with_rows(file)
    with zipfile.ZipFile(file, "w") as parts:
        parts.writestr("a.txt", "no workbook")
    with pytest.raises(InputError, match="not a readable workbook"):
        workbooks.sheets_with_rows(file)
    monkeypatch.setattr(workbooks, "MAX_BYTES", 10)
    with pytest.raises(InputError, match="11 bytes unpacked; at most 10 are read"):
        workbooks.sheets_with_rows(file)


@pytest.mark.parametrize("cell", ["XFD1048576", "T1048576"])
def test_a_blank_cell_far_off_is_refused_before_the_sheet_is_made(cell: str, tmp_path: Path) -> None:
    """Its text is empty. A style that somebody gave a whole column leaves cells with nothing at all, which are read."""
    workbook_files.write(tmp_path / "near.xlsx", {"Data": ROWS, "Far": [["a", "b"], ["1", "2"]]})
    file = tmp_path / "a.xlsx"
    styled = f'<row r="1048576"><c r="{cell}" s="1"/><c r="{cell}" s="1"></c></row></sheetData>'
    blank = styled.replace("></c>", ' t="inlineStr"><is><t></t></is></c>')
    with zipfile.ZipFile(tmp_path / "near.xlsx") as near, zipfile.ZipFile(file, "w") as far:
        for part in near.namelist():
            end = {"xl/worksheets/sheet1.xml": styled, "xl/worksheets/sheet2.xml": blank}.get(part, "</sheetData>")
            far.writestr(part, near.read(part).decode().replace("</sheetData>", end))
    with pytest.raises(InputError, match=rf"a\.xlsx: sheet 'Far': its cells reach to {cell}, and"):
        list(workbooks.records(file, "Far"))
    assert len(list(workbooks.records(file, "Data"))) == 5


def test_the_cells_of_a_sheet_are_found_where_a_read_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workbook_files.write(tmp_path / "a.xlsx", {"Data": ROWS})  # five columns, the last of which only has a name
    read = list(workbooks.records(tmp_path / "a.xlsx"))
    for size in (1, 7, 1 << 20):
        monkeypatch.setattr(workbooks, "PART_BYTES", size)
        monkeypatch.setattr(workbooks, "MAX_CELLS", 32)
        assert list(workbooks.records(tmp_path / "a.xlsx")) == read
        monkeypatch.setattr(workbooks, "MAX_CELLS", 31)
        with pytest.raises(InputError, match="reach to D8"):
            list(workbooks.records(tmp_path / "a.xlsx"))
