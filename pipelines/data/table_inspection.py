"""An inspection of tables: their sheet, their columns, names of labels that are numbers, and rejected annotations."""

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.core import tables
from pipelines.core.errors import InputError, UsageError, listed, shown
from pipelines.core.schema import TARGETS
from pipelines.data import own_tables, table_columns
from pipelines.data.formats import encodings, workbooks
from pipelines.data.formats.records import plain, records

REVIEW, ACCEPTED = "answer", {"answer": "accept"}  # Prodigy's column of what an annotator decided on a row
DECISIONS = {"accept", "reject", "ignore"}
Columns = defaultdict[str, list[Any]]


@dataclass
class TableFacts:
    """The keys of `prepare` that describe tables, and what a person should know of them."""

    keys: dict[str, Any]  # kind, sheet, columns, where, labels
    class_names: dict[str, str] = field(default_factory=dict)  # of labels in Hugging Face's Parquet, by their numbers
    rejected: int = 0  # rows that an annotator did not accept
    other_sheets: list[str] = field(default_factory=list)  # of a workbook, with rows


def inspect(files: Sequence[Path], keys: dict[str, Any], text: str, label: str, sheet: str = "") -> TableFacts:
    """Inspect tables of one form. `text` and `label` name columns, `sheet` a sheet, that a person chose.

    Of a workbook the first sheet with a text and a label is taken. Raises InputError if there is none.
    """
    first = files[0]
    if keys["format"] != "xlsx":
        if sheet:
            raise UsageError(f"--sheet: {first} is no workbook; leave it out")
        return _facts(files, keys, text, label)
    sheets = workbooks.sheets_with_rows(first)
    if len(sheets) < 2 and not sheet:
        return _facts(files, keys, text, label)
    errors = []
    for name in [sheet] if sheet else sheets:
        try:
            facts = _facts(files, keys | {"sheet": name}, text, label)
        except InputError as error:
            if sheet:
                raise
            errors.append(f"sheet {shown(name)}: {str(error).removeprefix(f'{first}: ')}")
        else:
            facts.keys["sheet"] = name
            facts.other_sheets = [other for other in sheets if other != name]
            return facts
    raise InputError(f"{first}: {listed(errors)}; --sheet names one of them")


def _facts(files: Sequence[Path], keys: Mapping[str, Any], text: str, label: str) -> TableFacts:
    """The facts, told by the first table."""
    accepted, where, rejected = _accepted(files, keys, label)
    table, *others = accepted
    classes = _class_names(files[0]) if keys["format"] == "parquet" else {}
    for name, names in classes.items():
        for one in accepted:  # more than some twenty whole numbers would be a regression
            one[name] = [names.get(str(cell), cell) for cell in one[name]]
    try:
        kind, columns = table_columns.kind_and_columns(table, text, label)
    except InputError as error:
        raise InputError(f"{files[0]}: {error}") from None
    if any(table_columns.id_column(other) != columns.get("id", "") for other in others):
        columns.pop("id", None)  # rows of one file have none
    facts = TableFacts({"kind": kind, **({"columns": columns} if columns else {})}, rejected=rejected)
    if where:
        facts.keys["where"] = where
    if kind in ("single", "pair", "tagging"):
        name = columns.get(TARGETS[kind], TARGETS[kind])
        facts.class_names = classes.get(name, {})
        numbers = _names_of_numbers([*table[name], *(cell for other in others for cell in other[name])])
        if rename := facts.class_names | numbers:
            facts.keys["labels"] = {"rename": rename}
    return facts


def _accepted(
    files: Sequence[Path], keys: Mapping[str, Any], label: str
) -> tuple[list[Columns], dict[str, dict[str, str]], int]:
    """The tables without rows that an annotator did not accept; `where`, which selects the others; and their number."""
    accepted: list[Columns] = []
    where: dict[str, dict[str, str]] = {}
    rejected = 0
    for file, split in zip(files, _splits(files, keys), strict=True):
        table = _columns(file, keys)
        if label != REVIEW and _are_reviewed(table):
            where[split] = ACCEPTED
            before = len(table[REVIEW])
            table = _columns(file, keys, ACCEPTED)
            rejected += before - len(table.pop(REVIEW))
        accepted.append(table)
    return accepted, where, rejected


def _splits(files: Sequence[Path], keys: Mapping[str, Any]) -> list[str]:
    """The split of each file."""
    names = {name: split for split, name in keys.get("files", {}).items()}
    return [names.get(file.name, "train") for file in files]


def _columns(file: Path, keys: Mapping[str, Any], where: Mapping[str, Any] | None = None) -> Columns:
    """The cells of each column of the rows that `where` selects; none of a column that the table lacks."""
    opener = encodings.opener(keys.get("encoding", "utf-8")) or plain
    table = Columns(list)
    errors: list[InputError] = []
    for _, record in records(
        file, keys["format"], (), opener, keys.get("delimiter", ","), errors.append, keys.get("sheet", "")
    ):
        if own_tables.is_selected(record, where or {}):
            for name, cell in record.items():
                table[name].append(cell)
    if not table:
        raise errors[0] if errors else InputError(f"{file}: no rows in it")
    return table


def _are_reviewed(table: Columns) -> bool:
    """Return whether each row has an annotator's decision, and one is accepted."""
    decisions = table.get(REVIEW, [])
    is_whole = len(decisions) == max(map(len, table.values()))
    return is_whole and {*ACCEPTED.values()} <= {*map(str, decisions)} <= DECISIONS


def _class_names(file: Path) -> dict[str, dict[str, str]]:
    """Column -> number of a class -> its name, as Hugging Face writes them into the metadata of Parquet."""
    metadata = (tables.open_parquet(file).schema_arrow.metadata or {}).get(b"huggingface", b"{}")
    try:
        features = json.loads(metadata)["info"]["features"]
        columns = {column: feature for column, feature in features.items() if isinstance(feature, dict)}
        columns |= {column: feature["feature"] for column, feature in columns.items() if "feature" in feature}  # a list
        classes = {
            column: {str(number): str(name) for number, name in enumerate(feature["names"])}
            for column, feature in columns.items()
            if isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
        }
    except (ValueError, KeyError, TypeError, AttributeError):  # another program's
        return {}
    return {column: names for column, names in classes.items() if any(number != names[number] for number in names)}


def _names_of_numbers(cells: Sequence[Any]) -> dict[str, str]:
    """The names of labels that are no text and no whole number, as pandas writes them into CSV: 0.5, True.

    1.0 is 1, since pandas makes 1.0 of 1 if a label is missing.
    """
    names = {
        str(cell): str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
        for cell in cells
        if isinstance(cell, bool) or (isinstance(cell, float) and math.isfinite(cell))
    }
    return dict(sorted(names.items()))
