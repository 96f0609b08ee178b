"""What `bertline new` sees in tables: rejected annotations, names of classes, and the sheet with texts and labels."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.core.errors import InputError, UsageError
from pipelines.data import inspection
from pipelines.data.corpora import custom
from tests.support import workbook_files

TABLE = [["text", "label"], *([f"word {i * i}", "ab"[i % 2]] for i in range(20))]
COVER = [["表紙", None], ["2026", "作成者"], ["x", None]]


def rows_of(seen: inspection.Inspection) -> list[dict]:
    params, raw = custom.Params(**{k: v for k, v in seen.keys.items() if k != "source"}), Path(seen.keys["source"])
    return list(custom.parse(raw, custom.task(raw, "", params), "train", params))


@pytest.mark.parametrize(
    ("decisions", "where", "rows"),
    [
        (["accept", "reject", "accept", "ignore"], {"train": {"answer": "accept"}}, 20),
        (["accept"] * 4, {"train": {"answer": "accept"}}, 40),
        (["accept", "maybe", "accept", "no"], None, 40),
        (["reject"] * 4, None, 40),
    ],
)
def test_rejected_annotations_are_no_examples(decisions: list[str], where: object, rows: int, checkout: Path) -> None:
    records = [
        {"text": f"word {i * i}", "label": f"x{i // 4 % 2}", "answer": decisions[i % 4], "meta": {"at": i}}
        for i in range(40)
    ]
    Path("a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    seen = inspection.inspect([Path("a.jsonl")])
    assert (seen.keys.get("where"), seen.rows["train"], len(rows_of(seen))) == (where, rows, rows)
    lines = [line for line in inspection.sentences(seen) if "left out" in line]
    assert lines == (["20 rows are left out: their `answer` is not accept"] if rows < 40 else [])


@pytest.mark.parametrize("count", [3, 30])
def test_names_of_classes_stand_in_the_metadata_of_parquet(count: int, checkout: Path) -> None:
    names = [f"class {number}" for number in range(count)]
    features = {"text": {"_type": "Value"}, "label": {"names": names, "_type": "ClassLabel"}}
    table = pa.table({"text": [f"word {i * i}" for i in range(120)], "label": [i % count for i in range(120)]})
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    pq.write_table(table.replace_schema_metadata(metadata), "a.parquet")
    seen = inspection.inspect([Path("a.parquet")])
    inspection.require_prepared(seen)
    assert (seen.kind, {*seen.labels}) == ("single", {*names})
    assert rows_of(seen)[1]["label"] == "class 1"
    lines = inspection.sentences(seen)
    assert any(line.startswith("names of labels, from the file's metadata: 0 is 'class 0', 1 is") for line in lines)
    assert not [line for line in lines if "become one" in line]


def test_names_of_tags_stand_in_the_metadata_of_parquet(checkout: Path) -> None:
    tags = {"feature": {"names": ["O", "B-PER", "I-PER"], "_type": "ClassLabel"}, "_type": "Sequence"}
    features = {"tokens": {"feature": {"_type": "Value"}, "_type": "Sequence"}, "ner_tags": tags, "links": [{}]}
    table = pa.table({"tokens": [["by", "Ann", "Lee"]] * 20, "ner_tags": [[0, 1, 2]] * 20})
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    pq.write_table(table.replace_schema_metadata(metadata), "a.parquet")
    seen = inspection.inspect([Path("a.parquet")])
    inspection.require_prepared(seen)
    assert seen.keys["labels"] == {"names": ["PER"], "rename": {"0": "O", "1": "B-PER", "2": "I-PER"}}
    assert rows_of(seen)[0]["entities"] == [{"start": 3, "end": 10, "label": "PER"}]


@pytest.mark.parametrize("metadata", ["", "[]", '{"info": {"features": null}}', '{"info": {"features": {"label": 3}}}'])
def test_metadata_of_another_form_name_no_classes(metadata: str, checkout: Path) -> None:
    table = pa.table({"text": [f"word {i * i}" for i in range(20)], "label": [i % 2 for i in range(20)]})
    pq.write_table(table.replace_schema_metadata({"huggingface": metadata}), "a.parquet")
    assert inspection.inspect([Path("a.parquet")]).labels == {"0": 10, "1": 10}


def test_the_sheet_is_the_first_one_with_texts_and_labels(checkout: Path) -> None:
    workbook_files.write(Path("a.xlsx"), {"表紙": COVER, "データ": TABLE, "旧": TABLE[:9]})
    seen = inspection.inspect([Path("a.xlsx")])
    assert (seen.keys["sheet"], seen.rows, len(rows_of(seen))) == ("データ", {"train": 20}, 20)
    assert "sheets that are not read: '表紙', '旧'; `sheet` names another" in inspection.sentences(seen)
    assert inspection.inspect([Path("a.xlsx")], sheet="旧").rows == {"train": 8}
    with pytest.raises(InputError, match=r"^a\.xlsx: no sheet '新'; there are: データ, 旧, 表紙$"):
        inspection.inspect([Path("a.xlsx")], sheet="新")
    workbook_files.write(Path("b.xlsx"), {"表紙": COVER, "データ": [["text"], ["x"], ["y"]]})
    with pytest.raises(
        InputError, match=r"sheet '表紙': .*; sheet 'データ': no column holds labels.*; --sheet names one"
    ):
        inspection.inspect([Path("b.xlsx")])


def test_a_file_without_sheets_has_none(checkout: Path) -> None:
    Path("a.csv").write_text("\n".join(",".join(row) for row in TABLE))
    with pytest.raises(UsageError, match=r"--sheet: a\.csv is no workbook"):
        inspection.inspect([Path("a.csv")], sheet="x")
