"""Write workbooks (xlsx) as spreadsheet programs do, with dates, formulas, errors and hidden sheets."""

import datetime
import zipfile
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape, quoteattr

MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
HIDDEN = ' state="hidden"'
EPOCH = datetime.datetime(1899, 12, 30)
STYLES = (
    f"<styleSheet {MAIN}><fonts><font/></fonts><fills><fill/></fills><borders><border/></borders>"
    '<cellStyleXfs><xf/></cellStyleXfs><cellXfs><xf numFmtId="0"/><xf numFmtId="14" applyNumberFormat="1"/>'
    '<xf numFmtId="22" applyNumberFormat="1"/></cellXfs></styleSheet>'
)


class Formula(NamedTuple):
    """A formula and the value that the program saved beside it."""

    text: str
    value: Any


class Wrong(NamedTuple):
    """The error that a formula has left."""

    sign: str


def write(
    path: Path, sheets: dict[str, list[list[Any]]], hidden: tuple[str, ...] = (), merged: tuple[str, ...] = ()
) -> None:
    """A workbook with these sheets, each with the `merged` cells, such as B2:B4; None is a cell that is not there."""
    numbered = list(enumerate(sheets, 1))
    listed = "".join(
        f'<sheet name={quoteattr(name)} sheetId="{i}" r:id="r{i}"{HIDDEN if name in hidden else ""}/>'
        for i, name in numbered
    )
    targets = [(f"r{i}", "worksheet", f"worksheets/sheet{i}.xml") for i, _ in numbered]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as parts:
        parts.writestr("[Content_Types].xml", _types(len(sheets)))
        parts.writestr("_rels/.rels", _relations([("r1", "officeDocument", "xl/workbook.xml")]))
        workbook = f'<workbook {MAIN} xmlns:r="{OFFICE}"><sheets>{listed}</sheets></workbook>'
        parts.writestr("xl/workbook.xml", workbook)
        parts.writestr("xl/_rels/workbook.xml.rels", _relations([*targets, ("s", "styles", "styles.xml")]))
        parts.writestr("xl/styles.xml", STYLES)
        for i, name in numbered:
            parts.writestr(f"xl/worksheets/sheet{i}.xml", _sheet(sheets[name], merged))


def _types(count: int) -> str:
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = {"workbook": f"{kind}.sheet.main+xml", "styles": f"{kind}.styles+xml"}
    parts |= {f"worksheets/sheet{i + 1}": f"{kind}.worksheet+xml" for i in range(count)}
    listed = "".join(f'<Override PartName="/xl/{name}.xml" ContentType="{of}"/>' for name, of in parts.items())
    relations = "application/vnd.openxmlformats-package.relationships+xml"
    return (
        f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" ContentType="{relations}"/>{listed}</Types>'
    )


def _relations(targets: list[tuple[str, str, str]]) -> str:
    listed = "".join(f'<Relationship Id="{key}" Type="{OFFICE}/{of}" Target="{to}"/>' for key, of, to in targets)
    return f'<Relationships xmlns="{PACKAGE}/relationships">{listed}</Relationships>'


def _sheet(rows: list[list[Any]], merged: tuple[str, ...]) -> str:
    lines = (
        f'<row r="{number}">{"".join(_cell(f"{chr(65 + at)}{number}", cell) for at, cell in enumerate(row))}</row>'
        for number, row in enumerate(rows, 1)
        if row
    )
    ranges = "".join(f'<mergeCell ref="{ref}"/>' for ref in merged)
    cells = f"<mergeCells>{ranges}</mergeCells>" if merged else ""
    return f"<worksheet {MAIN}><sheetData>{''.join(lines)}</sheetData>{cells}</worksheet>"


def _cell(place: str, cell: Any) -> str:
    formula, value = (f"<f>{escape(cell.text)}</f>", cell.value) if isinstance(cell, Formula) else ("", cell)
    if value is None:
        return ""
    if isinstance(value, Wrong):
        return f'<c r="{place}" t="e">{formula}<v>{value.sign}</v></c>'
    if isinstance(value, bool):
        return f'<c r="{place}" t="b">{formula}<v>{int(value)}</v></c>'
    if isinstance(value, datetime.date):
        moment = value if isinstance(value, datetime.datetime) else datetime.datetime.combine(value, datetime.time())
        days, style = (moment - EPOCH) / datetime.timedelta(days=1), 2 if isinstance(value, datetime.datetime) else 1
        return f'<c r="{place}" s="{style}"><v>{days!r}</v></c>'
    if isinstance(value, int | float):
        return f'<c r="{place}">{formula}<v>{value!r}</v></c>'
    if formula:
        return f'<c r="{place}" t="str">{formula}<v>{escape(value)}</v></c>'
    return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
