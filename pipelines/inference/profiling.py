"""What drift is measured on: of each row its pieces and unknown words, and what the model says of it."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.core import paths, schema, seeding, tables
from pipelines.core.ragged import offsets
from pipelines.core.task import Task
from pipelines.evaluation.drift import SCHEMA
from pipelines.text import tokenizer as text_tokenizer
from pipelines.text.interface import Tokenizer

# of predictions -> the column of SCHEMA
SAID = {"label": "label", "value": "value", "score": "confidence", "answer": ""}
MOST_ROWS = 5000  # of a profile and of a window; others are drawn, with a fixed seed


def of_run(run: str, task: str, split: str) -> pa.Table:
    """The profile of a run: the texts that it was trained on, and what it says of a split that it was not trained on.

    Of its training rows a model is too sure.
    """
    described = Task.load(paths.rows(task))
    rows = sample(paths.rows(task) / f"{described.train}.parquet", schema.INPUTS[described.kind])
    answers = sample(paths.predictions(run) / f"{split}.parquet")
    return pa.concat_tables([texts(rows, text_tokenizer.load(paths.model(run)), described.kind), said(answers)])


def of_scored(file: Path, folder: Path, prefix: str = "") -> pa.Table:
    """The same of a scored file; `folder` is that of the model that scored it."""
    kind = Task.load(folder).kind
    there = tables.open_parquet(file).schema_arrow.names
    own = {f"{prefix}{name}": name for name in SAID if f"{prefix}{name}" in there}
    rows = sample(file, [*schema.INPUTS[kind], *own])
    answers = rows.select([*own]).rename_columns([*own.values()])
    return observed(rows, answers, text_tokenizer.load(folder), kind)


def observed(rows: pa.Table, answers: pa.Table, tokenizer: Tokenizer, kind: str) -> pa.Table:
    """The columns of SCHEMA for rows and what a model says of each."""
    of_texts, of_answers = texts(rows, tokenizer, kind), said(answers)
    columns = [of_answers.column(name) if name in SAID.values() else of_texts.column(name) for name in SCHEMA.names]
    return pa.table(columns, schema=SCHEMA)


def sample(file: Path, columns: list[str] | None = None) -> pa.Table:
    """At most MOST_ROWS rows of a Parquet file, in their order; its size does not matter to the memory."""
    parquet = tables.open_parquet(file)
    count = parquet.metadata.num_rows
    drawn = np.arange(count)
    if count > MOST_ROWS:
        drawn = np.sort(seeding.generator(1, "profile").choice(count, MOST_ROWS, replace=False))
    found, at = [parquet.schema_arrow.empty_table().select(columns or parquet.schema_arrow.names)], 0
    for batch in tables.read_batches(file, columns):
        here = drawn[(drawn >= at) & (drawn < at + batch.num_rows)] - at
        found.append(pa.Table.from_batches([batch.take(pa.array(here))]))
        at += batch.num_rows
    return pa.concat_tables(found)


def texts(rows: pa.Table, tokenizer: Tokenizer, kind: str) -> pa.Table:
    """The columns of SCHEMA that are of a row's texts; the others are null."""
    columns = [rows.column(name).to_pylist() for name in schema.INPUTS[kind]]
    each = [[text for given in row for text in _texts(given)] for row in zip(*columns, strict=True)]
    flat, bounds = [text for row in each for text in row], offsets(np.array([len(row) for row in each], np.int64))
    ids, words = tokenizer.encode(flat), tokenizer.words(flat)
    ends = ids.offsets[bounds]
    unknown = _sums((ids.values == tokenizer.unk_id).astype(np.int64), ends)
    found = {"pieces": pa.ListArray.from_arrays(ends.astype(np.int32), ids.values), "unknown_pieces": unknown}
    if words is not None:
        found |= {name: _sums(words[:, i], bounds) for i, name in enumerate(("words", "unknown_words"))}
    return _table(found, rows.num_rows)


def said(answers: pa.Table) -> pa.Table:
    """The columns of SCHEMA that are of a model's answers; the others are null."""
    found = {}
    for column, name in SAID.items():
        if name and column in answers.column_names:
            found[name] = answers.column(column).cast(SCHEMA.field(name).type)
    if "answer" in answers.column_names:
        found["label"] = pc.if_else(pc.equal(answers.column("answer"), ""), "no answer", "an answer")
    return _table(found, answers.num_rows)


def _texts(given: str | list[str]) -> list[str]:
    return given if isinstance(given, list) else [given]


def _sums(values: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The sum of each group of values; group i is values[ends[i]:ends[i + 1]], and may be empty."""
    total = np.concatenate([[0], np.cumsum(values)])
    return total[ends[1:]] - total[ends[:-1]]


def _table(found: dict[str, pa.Array | pa.ChunkedArray | np.ndarray], rows: int) -> pa.Table:
    return pa.table([found.get(field.name, pa.nulls(rows, field.type)) for field in SCHEMA], schema=SCHEMA)
