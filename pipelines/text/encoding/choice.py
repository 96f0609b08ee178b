"""Encode multiple choice: the text is paired with each choice (Radford et al. 2018; BERT, section 4.4)."""

import numpy as np
import pyarrow as pa

from pipelines.core import schema
from pipelines.core.errors import InputError
from pipelines.core.task import Task
from pipelines.text.encoding import Encoded
from pipelines.text.encoding.sequence import join, labels, nested
from pipelines.text.protocol import Tokenizer


def encode(batch: pa.RecordBatch, tokenizer: Tokenizer, task: Task, max_length: int) -> Encoded:
    """Turn rows into lists of sequences, one per choice; also marks the rows with a truncated sequence."""
    count = len(task.labels)
    options = batch.column("choices").to_pylist()
    for row_id, row in zip(batch.column("id").to_pylist(), options, strict=True):
        if len(row) != count:
            raise InputError(f"row {row_id}: {len(row)} choices; the task has {count}")
    text = tokenizer.encode(batch.column("text").to_pylist())
    first = text.take(np.repeat(np.arange(batch.num_rows), count))
    second = tokenizer.encode([choice for row in options for choice in row])
    ids, first_length, cut = join(first, second, np.ones(batch.num_rows * count, bool), tokenizer, max_length)
    fields = schema.encoded(task.kind, tokenizer.vocab_size)
    rows = pa.array(np.arange(0, batch.num_rows * count + 1, count), pa.int32())
    columns = {
        "id": batch.column("id"),
        "input_ids": nested(ids, count, fields.field("input_ids").type),
        "length": pa.array(ids.lengths.reshape(-1, count).sum(axis=1), pa.uint32()),
        "first_lengths": pa.ListArray.from_arrays(rows, pa.array(first_length, pa.uint32())),
        "label": labels(batch, task),
    }
    encoded = pa.RecordBatch.from_arrays([columns[n] for n in fields.names], schema=fields)
    return encoded, np.asarray(cut.reshape(-1, count).any(axis=1))
