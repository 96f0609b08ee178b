"""The profile that drift is measured on: the pieces and unknown words of each row, and the model's prediction."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.core import paths, schema, seeding, tables
from pipelines.core.errors import InputError, choices, one_line, shown
from pipelines.core.ragged import offsets
from pipelines.core.task import Task
from pipelines.evaluation.drift import SCHEMA
from pipelines.text import tokenizer as text_tokenizer
from pipelines.text.protocol import Tokenizer

# column of predictions -> column of SCHEMA
SAID = {"label": "label", "value": "value", "score": "confidence", "answer": ""}
ANSWERS = {"value": pa.float64(), "score": pa.float64()}  # column -> type in which it is measured; else text
MOST_ROWS = 5000  # of a profile and of a window; larger ones are sampled with a fixed seed


def of_run(run: str, task: str, split: str) -> pa.Table:
    """The profile of a run: the texts of its training rows, and its predictions for a split that it was not trained on.

    Predictions for training rows would be too confident.
    """
    described = Task.load(paths.rows(task))
    rows = sample(paths.rows(task) / f"{described.train}.parquet", schema.INPUTS[described.kind])
    answers = sample(paths.predictions(run) / f"{split}.parquet")
    return pa.concat_tables([texts(rows, text_tokenizer.load(paths.model(run)), described.kind), said(answers)])


def of_scored(file: Path, folder: Path, prefix: str = "") -> pa.Table:
    """The profile of a scored file; `folder` is the model that scored it."""
    kind = Task.load(folder).kind
    there = tables.open_parquet(file).schema_arrow.names
    answered = [name for name in SAID if name in schema.PREDICTIONS[kind].names]  # others are the file's own columns
    columns = {f"{prefix}{name}": name for name in answered if f"{prefix}{name}" in there}
    if not columns:
        raise InputError(f"{file}: no column has answers of a model, such as {prefix}label; score the window again")
    texts_of = {name: schema.ROWS[kind].field(name) for name in schema.INPUTS[kind]}
    fields = texts_of | {name: pa.field(name, ANSWERS.get(of, pa.string())) for name, of in columns.items()}
    rows = measurable(file, sample(file, [*fields]), [*fields.values()])
    answers = rows.select([*columns]).rename_columns([*columns.values()])
    return observed(rows, answers, text_tokenizer.load(folder), kind)


def measurable(file: Path, rows: pa.Table, fields: list[pa.Field]) -> pa.Table:
    """Cast columns of a file to the types of `fields`; text may be dictionary-encoded, large_string or string_view.

    Raises InputError for a column of another type, a missing text, or a number that is not finite.
    """
    columns = []
    for field in fields:
        name, column = field.name, rows.column(field.name)
        if _plain(column.type) != _plain(field.type):
            raise InputError(f"{file}: the column {shown(name)} holds {column.type}; {field.type} is expected")
        if not field.nullable and column.null_count:
            raise InputError(f"{file}: the column {shown(name)}: a row has no text")
        try:
            column = column.cast(field.type)
        except pa.ArrowException as error:
            raise InputError(f"{file}: the column {shown(name)} cannot be read ({one_line(error)})") from None
        if pa.types.is_floating(field.type) and pc.all(pc.is_finite(column)).as_py() not in (True, None):
            raise InputError(f"{file}: the column {shown(name)}: a row has NaN or an infinite number")
        if pa.types.is_list(field.type) and column.combine_chunks().flatten().null_count:
            raise InputError(f"{file}: the column {shown(name)}: a row has a null inside its list")
        columns.append(column)
    return pa.table(columns, schema=pa.schema(fields))


def _plain(kind: pa.DataType) -> str:
    """The kind of values of an Arrow type, such as "text"; several types may hold the same kind."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"lists of {_plain(kind.value_type)}"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    return "number" if pa.types.is_floating(kind) or pa.types.is_integer(kind) else str(kind)


def observed(rows: pa.Table, answers: pa.Table, tokenizer: Tokenizer, kind: str) -> pa.Table:
    """The columns of SCHEMA for rows and the model's predictions of them."""
    of_texts, of_answers = texts(rows, tokenizer, kind), said(answers)
    columns = [of_answers.column(name) if name in SAID.values() else of_texts.column(name) for name in SCHEMA.names]
    return pa.table(columns, schema=SCHEMA)


def sample(file: Path, columns: list[str] | None = None) -> pa.Table:
    """At most MOST_ROWS rows of a Parquet file, in their order. The file is read in batches, whatever its size."""
    parquet = tables.open_parquet(file)
    for name in columns or []:
        if name not in parquet.schema_arrow.names:
            raise InputError(f"{file}: {choices('column', name, parquet.schema_arrow.names)}")
    count = parquet.metadata.num_rows
    drawn = np.arange(count)
    if count > MOST_ROWS:
        drawn = np.sort(seeding.generator(1, "profile").choice(count, MOST_ROWS, replace=False))
    parts, at = [parquet.schema_arrow.empty_table().select(columns or parquet.schema_arrow.names)], 0
    for batch in tables.read_batches(file, columns):
        here = drawn[(drawn >= at) & (drawn < at + batch.num_rows)] - at
        parts.append(tables.taken(pa.Table.from_batches([batch]), here))
        at += batch.num_rows
    return pa.concat_tables(parts)


def texts(rows: pa.Table, tokenizer: Tokenizer, kind: str) -> pa.Table:
    """The columns of SCHEMA that describe a row's texts; the others are null."""
    inputs = [rows.column(name).to_pylist() for name in schema.INPUTS[kind]]
    row_texts = [[text for value in row for text in _texts(value)] for row in zip(*inputs, strict=True)]
    flat = [text for row in row_texts for text in row]
    bounds = offsets(np.array([len(row) for row in row_texts], np.int64))
    ids, words = tokenizer.encode(flat), tokenizer.words(flat)
    ends = ids.offsets[bounds]
    unknown = _sums((ids.values == tokenizer.unk_id).astype(np.int64), ends)
    columns = {"pieces": pa.ListArray.from_arrays(ends.astype(np.int32), ids.values), "unknown_pieces": unknown}
    if words is not None:
        columns |= {name: _sums(words[:, i], bounds) for i, name in enumerate(("words", "unknown_words"))}
    return _table(columns, rows.num_rows)


def said(answers: pa.Table) -> pa.Table:
    """The columns of SCHEMA that describe a model's predictions; the others are null."""
    columns = {}
    for column, name in SAID.items():
        if name and column in answers.column_names:
            columns[name] = answers.column(column).cast(SCHEMA.field(name).type)
    if "answer" in answers.column_names:
        columns["label"] = pc.if_else(pc.equal(answers.column("answer"), ""), "no answer", "an answer")
    return _table(columns, answers.num_rows)


def _texts(text_or_texts: str | list[str]) -> list[str]:
    return text_or_texts if isinstance(text_or_texts, list) else [text_or_texts]


def _sums(values: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The sum of each group of values; group i is values[ends[i]:ends[i + 1]], and may be empty."""
    total = np.concatenate([[0], np.cumsum(values)])
    return total[ends[1:]] - total[ends[:-1]]


def _table(measured: dict[str, pa.Array | pa.ChunkedArray | np.ndarray], rows: int) -> pa.Table:
    return pa.table([measured.get(field.name, pa.nulls(rows, field.type)) for field in SCHEMA], schema=SCHEMA)
