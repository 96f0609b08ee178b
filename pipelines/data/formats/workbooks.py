"""Read records of a workbook (xlsx): the rows of one sheet, under the names in its first row; cells become texts."""

import datetime
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from pipelines.core.errors import InputError, choices

MAX_BYTES = 1 << 30  # of all parts of the file, unpacked: a sheet is read whole
MAX_CELLS = 20_000_000  # from A1 to the last row and column that have a cell; calamine makes empty ones too
PART_BYTES = 1 << 20  # of a sheet that are looked through at a time
# a cell with something in it, such as an empty text; calamine passes over one that has a style alone
CELL = re.compile(rb"""<(?:\w+:)?c\s(?:[^<>]*\s)?r\s*=\s*["']([A-Z]{1,3})([0-9]{1,7})["'](?:[^<>]*[^<>/])?>(?!</)""")
MIDNIGHT = datetime.time()

Rows = dict[int, list[str]]  # number of a row in the sheet -> its cells; rows without any are left out
Range = tuple[tuple[int, int], tuple[int, int]]  # the first and the last cell: row and column, from 0


def sheets_with_rows(path: Path) -> list[str]:
    """The visible sheets that have a header and a row, in their order.

    Raises InputError if the file is no workbook, has a password, or unpacks to more than MAX_BYTES.
    """
    return [name for name, rows in _sheets(path) if len(rows) > 1]


def records(path: Path, sheet: str = "") -> Iterator[tuple[str, dict[str, str]]]:
    """The places and the records of `sheet`; "" is the first visible sheet with a row below its header.

    A number is written without a needless `.0`, a date as 2026-11-28, a moment as 2026-11-28T09:30:00, a truth value as
    TRUE or FALSE. A formula has the value that was last saved; an error such as #DIV/0! is an empty cell. Cells of a
    column that are merged have one value for all of their rows.
    """
    name, rows = _chosen(path, sheet)
    header_at, *numbers = rows
    columns = _columns(f"{path}: sheet {name!r}: row {header_at}", rows)
    for number in numbers:
        yield f"row {number}", {column: rows[number][at] for column, at in columns.items()}


def _chosen(path: Path, sheet: str) -> tuple[str, Rows]:
    """The name and the rows of a sheet. Raises InputError if it is not there, or has no row below its header."""
    names = []
    for name, rows in _sheets(path, sheet):
        names.append(name)
        if len(rows) > 1 and sheet in ("", name):
            return name, rows
    if sheet and sheet not in names:
        raise InputError(f"{path}: {choices('sheet', sheet, names)}")
    raise InputError(f"{path}: no rows below the header of {f'the sheet {sheet!r}' if sheet else 'any sheet'}")


def _columns(where: str, rows: Rows) -> dict[str, int]:
    """The named columns by their places. Raises InputError for cells below no name, and for equal names."""
    header, *others = rows.values()
    columns: dict[str, int] = {}
    for at, name in enumerate(cell.strip() for cell in header):
        if name in columns:
            raise InputError(f"{where}: two columns are named {name!r}; rename one of them")
        if name:
            columns[name] = at
        elif any(row[at] for row in others):
            raise InputError(f"{where}: column {at + 1} has cells and no name; name it, or remove it")
    return columns


def _sheets(path: Path, sheet: str = "") -> Iterator[tuple[str, Rows]]:
    """The names and rows of the visible sheets, and of `sheet` even if it is hidden."""
    import python_calamine as calamine

    _require_small(path)
    parts = _parts(path)
    try:
        with calamine.CalamineWorkbook.from_path(path) as workbook:
            for about in workbook.sheets_metadata:
                is_visible = about.visible == calamine.SheetVisibleEnum.Visible
                if about.typ == calamine.SheetTypeEnum.WorkSheet and (is_visible or about.name == sheet):
                    if about.name in parts:
                        _require_near(path, about.name, parts[about.name])
                    cells = workbook.get_sheet_by_name(about.name)
                    texts = ([_text(cell) for cell in row] for row in cells.to_python(skip_empty_area=False))
                    rows = {number: row for number, row in enumerate(texts, 1) if any(map(str.strip, row))}
                    _fill(rows, cells.merged_cell_ranges or [])
                    yield about.name, rows
    except (calamine.CalamineError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise InputError(f"{path}: not a readable workbook ({error}); save it again as xlsx, or as CSV UTF-8") from None


def _fill(rows: Rows, merged: list[Range]) -> None:
    """Write the value of cells that are merged in one column to the rows that have other cells, without the header."""
    header, end = next(iter(rows), 0), max(rows, default=0)
    for (first, column), (last, last_column) in merged:
        if column == last_column and first + 1 in rows and first + 1 != header:
            for number in range(first + 2, min(last + 1, end) + 1):
                if number in rows:
                    rows[number][column] = rows[first + 1][column]


def _require_small(path: Path) -> None:
    """Raise InputError unless the file is a zip whose parts are small enough to be read whole."""
    try:
        with zipfile.ZipFile(path) as parts:
            size = sum(part.file_size for part in parts.infolist())
    except (zipfile.BadZipFile, OSError, ValueError):
        raise InputError(
            f"{path}: not a readable workbook; one with a password, or of an old form, must be saved again as xlsx"
        ) from None
    if size > MAX_BYTES:
        raise InputError(f"{path}: {size:,} bytes unpacked; at most {MAX_BYTES:,} are read; save it as CSV UTF-8")


def _parts(path: Path) -> dict[str, str]:
    """The part of the file that has each sheet, by the sheet's name."""
    try:
        with zipfile.ZipFile(path) as parts:
            links = ElementTree.fromstring(parts.read("xl/_rels/workbook.xml.rels"))
            targets = {link.get("Id"): posixpath.join("/xl", link.get("Target", "")) for link in links}
            sheets = ElementTree.fromstring(parts.read("xl/workbook.xml")).iterfind("{*}sheets/{*}sheet")
            there = {f"/{name}" for name in parts.namelist()}
            keys = [(sheet.get("name", ""), next(v for k, v in sheet.items() if k.endswith("}id"))) for sheet in sheets]
    except (KeyError, StopIteration, ElementTree.ParseError):  # calamine says what is wrong
        return {}
    places = {name: posixpath.normpath(targets.get(key, "")) for name, key in keys}
    return {name: place[1:] for name, place in places.items() if place in there}


def _require_near(path: Path, sheet: str, part: str) -> None:
    """Raise InputError if a cell of a sheet, such as one with an empty text, lies so far off that memory runs out."""
    rows, columns, text = {0}, {b""}, b""
    with zipfile.ZipFile(path) as parts, parts.open(part) as file:
        while read := file.read(PART_BYTES):
            before, tag, after = (text + read).rpartition(b"<")
            text = tag + after
            for column, row in CELL.findall(before):
                rows.add(int(row))
                columns.add(column)
    last = max(columns, key=lambda column: (len(column), column))
    width = sum((letter - 64) * 26**power for power, letter in enumerate(reversed(last)))
    if max(rows) * width > MAX_CELLS:
        raise InputError(
            f"{path}: sheet {sheet!r}: its cells reach to {last.decode()}{max(rows)}, and at most {MAX_CELLS:,} are "
            "read, empty ones too; delete the empty rows and columns behind yours, or save the sheet as CSV UTF-8"
        )


def _text(cell: Any) -> str:
    if isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return str(cell).upper()
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    if isinstance(cell, datetime.datetime):
        return str(cell.date()) if cell.time() == MIDNIGHT else cell.isoformat()
    return "" if cell is None else str(cell)
