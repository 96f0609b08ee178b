"""Rows of a corpus of your own from the records of a table: CSV, TSV, JSONL, JSON, Parquet or xlsx."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.core import characters
from pipelines.core.errors import InputError, choices, shown
from pipelines.core.schema import INPUTS, ROWS, TARGETS
from pipelines.data import declared, targets
from pipelines.data.findings import Findings
from pipelines.data.formats import conll, delimiters, encodings
from pipelines.data.formats.records import Record, form_of_suffix, plain, records
from pipelines.data.own_params import Labels, Params

MANY_VALUES = 20  # of a column that `where` asks for, in a message


class Read(NamedTuple):
    """A row, its place in the file, and its value of the column by which `split` divides the rows."""

    place: str
    row: Record
    by: Any = None


def rows(path: Path, split: str, params: Params, findings: Findings) -> Iterator[Read]:
    """The rows that `where` selects, numbered by their positions in the file. `findings` takes the wrong ones."""
    conditions, number = params.where.get(split, {}), -1
    by = params.split.column if params.split and split == "train" else ""
    columns = [params.columns.get(name, name) for name in ROWS[params.kind].names if name != "id"]
    columns += [*filter(None, [params.columns.get("id"), by]), *params.choice_columns, *conditions]
    others: set[str] = set()
    any_taken = False
    keys = _Keys(findings, params, split == params.first, is_of_records(path, params))
    for number, (at, record) in enumerate(_records(path, params, columns, findings)):
        cells = {name: str(declared.column(path, at, record, name)) for name in conditions}
        if is_selected(cells, conditions):
            any_taken = True
            row_id = f"{'row' if params.split else split}-{number}"
            try:
                row = _row(path, at, record, row_id, params, keys.require_target, findings)
                value = declared.column(path, at, record, by) if by else None
            except InputError as error:
                keys.note(error)
            else:
                keys.read(record)
                yield Read(at, row, value)
        elif not any_taken and len(others) < MANY_VALUES:
            others.add(", ".join(cells.values()))
    if number < 0:
        findings.require_none()
        raise InputError(f"{path}: a header but no rows")
    if not any_taken:
        raise InputError(f"{path}: no row has {conditions}; there are {', '.join(sorted(others))}")
    if name := keys.missing():
        raise InputError(f"{path}: {choices('column', name, record)}")


def is_selected(cells: Mapping[str, Any], conditions: Mapping[str, Any]) -> bool:
    """Return whether the cells have the values that `where` asks for."""
    return all(str(cells[name]) == str(value) for name, value in conditions.items())


def is_of_records(path: Path, params: Params) -> bool:
    """Return whether each record of the file has keys of its own, as in JSON; a table has one header."""
    return _form(path, params) in ("jsonl", "json")


class CellError(InputError):
    """A cell of one row is wrong; the other rows are not concerned."""


class _Keys:
    """The columns that records have. A column that one record of a table lacks, the whole file lacks, but for JSON.

    There each record has keys of its own. One without the target has no label; one without another column is wrong.
    """

    def __init__(self, findings: Findings, params: Params, labelled: bool, of_records: bool) -> None:
        self._findings, self._of_records = findings, of_records
        target = TARGETS.get(params.kind, "") if labelled and of_records else ""
        self._target = params.columns.get(target, target)
        self.require_target = labelled and not of_records
        self._any_read = self._are_there = False
        self._errors: list[InputError] = []

    def note(self, error: InputError) -> None:
        """Take the error of a record; raises it if it is the file's."""
        if isinstance(error, CellError) or self._are_there:
            self._flush()
            self._findings.note(error)
        elif self._of_records:
            self._errors.append(error)
        else:
            raise error

    def read(self, record: Record) -> None:
        """Take a record that is a row."""
        self._any_read = True
        if self._target in record:
            self._target = ""
        self._flush()

    def _flush(self) -> None:
        """Note the errors of earlier records: another one has the columns."""
        self._are_there = True
        for error in self._errors:
            self._findings.note(error)
        self._errors = []

    def missing(self) -> str:
        """The column of the target if no record has it. Raises the first error if there is no row."""
        if self._errors:
            raise self._errors[0]
        return self._target if self._any_read else ""


def _form(path: Path, params: Params) -> str:
    return params.format or form_of_suffix(path)


def _records(path: Path, params: Params, columns: list[str], findings: Findings) -> Iterator[tuple[str, Record]]:
    """The records of a file. Raises InputError if its header would have the columns with another delimiter."""
    opener = encodings.opener(params.encoding) or plain
    if _form(path, params) == "csv" and path.is_file() and path.stat().st_size:
        required = [name for name in columns if name in {*params.columns.values(), *INPUTS[params.kind]}]
        if other := delimiters.separating(path, params.delimiter, required, opener):
            name = "a tab" if other == "\t" else repr(other)
            shown_as = '"\\t"' if other == "\t" else f'"{other}"'
            raise InputError(f"{path}: columns are separated by {name}; write `delimiter: {shown_as}`")
    yield from records(path, params.format, columns, opener, params.delimiter, findings.note, params.sheet)


def _row(
    path: Path, at: str, record: Record, row_id: str, params: Params, labelled: bool, findings: Findings
) -> Record:
    """A record of a table as a row of the entry's kind. If not `labelled`, the target may be missing."""

    def get(name: str) -> Any:
        return declared.column(path, at, record, params.columns.get(name, name))

    if params.kind == "tagging":
        record = _of_words(path, at, record, params)
    identifier = targets.plain(get("id")) if "id" in params.columns else row_id
    if not isinstance(identifier, str | int) or isinstance(identifier, bool) or identifier == "":
        raise CellError(f"{path}: {at}: the id is {shown(identifier)}; a text or a whole number is expected")
    row: Record = {"id": str(identifier)}
    for name in INPUTS[params.kind]:
        if name == "choices" and params.choice_columns:
            row[name] = [declared.column(path, at, record, column) for column in params.choice_columns]
        elif name == "text_pair" and params.kind == "regression" and not {"text_pair"} & {*params.columns, *record}:
            row[name] = ""  # a regression on single texts
        else:
            row[name] = get(name)
        _require_text(path, at, name, row[name])
    target = TARGETS.get(params.kind)
    if target:
        value = get(target) if labelled else record.get(params.columns.get(target, target))
        try:
            value = value if params.kind in ("span", "tagging") else targets.single(value)
            row[target] = None if value is None or value == "" else _target(value, row, params, findings)
        except ValueError as error:
            raise CellError(f"{path}: {at}: {error}") from None
    return row


def _of_words(path: Path, at: str, record: Record, params: Params) -> Record:
    """A record whose words are a list, with a list of tags beside it, as a text with entities; any other as it is."""
    text, entities = (params.columns.get(name, name) for name in ("text", "entities"))
    words, tags = record.get(text), record.get(entities)
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        return record
    between = "" if params.units == "characters" else " "
    try:
        spans = (
            None if tags is None else conll.character_spans(words, targets.tags(tags, words, params.renamed), between)
        )
    except ValueError as error:
        raise CellError(f"{path}: {at}: {error}") from None
    return {**record, text: between.join(words), **({} if spans is None else {entities: spans})}


def _require_text(path: Path, at: str, name: str, value: Any) -> None:
    """Raise CellError unless `value` is a text, or for choices a list of texts."""
    several = name == "choices"
    texts = value if several and isinstance(value, list) else [value]
    if not all(isinstance(text, str) for text in texts) or (several and not isinstance(value, list)):
        expected = "a list of texts" if several else "a text"
        raise CellError(f"{path}: {at}: {name} is {shown(value)}; {expected} is expected")
    if not characters.are_whole(texts):
        raise CellError(f"{path}: {at}: {name} holds {characters.HALF}")


def _target(value: Any, row: Record, params: Params, findings: Findings) -> Any:
    """The target in the type of the schema. Raises ValueError if it cannot be converted."""
    if params.kind == "regression":
        return targets.number(value)
    if params.kind == "span":
        return targets.answers(value, row["context"])
    if params.kind == "tagging":
        entities = targets.entities(value, row["text"])
        return [{**entity, "label": params.renamed.get(entity["label"], entity["label"])} for entity in entities]
    strips = isinstance(params.labels, Labels) and params.labels.strip
    if strips and isinstance(value, str) and value not in params.renamed and value != value.strip():
        findings.stripped(value)
        value = value.strip()
    return targets.label(value, params.renamed) if value != "" else None
