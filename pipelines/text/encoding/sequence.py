"""Encode single texts and pairs: [CLS] text [SEP], or [CLS] text [SEP] text_pair [SEP] (BERT, figure 2).

RoBERTa's pairs have two separators in the middle: `tokenizer.middle`.
"""

import numpy as np
import pyarrow as pa

from pipelines.core import schema
from pipelines.core.errors import InputError
from pipelines.core.ragged import Ragged, offsets, positions
from pipelines.core.task import Task
from pipelines.text.encoding import Encoded
from pipelines.text.protocol import Tokenizer


def encode(batch: pa.RecordBatch, tokenizer: Tokenizer, task: Task, max_length: int) -> Encoded:
    """Turn rows into ids with special tokens; also marks the truncated rows.

    A pair is truncated like transformers' `longest_first`: token by token from the longer text, or from the second if
    both are equal. In a regression an empty text_pair means a single text.
    """
    first = tokenizer.encode(batch.column("text").to_pylist())
    if task.kind == "single":
        second, paired = Ragged(first.values[:0], np.zeros_like(first.offsets)), np.zeros(batch.num_rows, bool)
    else:
        texts = batch.column("text_pair").to_pylist()
        second = tokenizer.encode(texts)
        paired = np.array([task.kind == "pair" or bool(text) for text in texts], bool)
    ids, first_length, cut = join(first, second, paired, tokenizer, max_length)
    fields = schema.encoded(task.kind, tokenizer.vocab_size)
    columns = {
        "id": batch.column("id"),
        "input_ids": lists(ids, fields.field("input_ids").type),
        "length": pa.array(ids.lengths, pa.uint32()),
        "first_length": pa.array(first_length, pa.uint32()),
        "label": _numbers(batch) if task.kind == "regression" else labels(batch, task),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in fields.names], schema=fields), cut


def join(
    first: Ragged, second: Ragged, paired: np.ndarray, tokenizer: Tokenizer, max_length: int
) -> tuple[Ragged, np.ndarray, np.ndarray]:
    """Join texts and, where `paired`, second texts into sequences of at most `max_length` tokens.

    Returns the ids, the number of tokens of type 0 in each row, and a mask of truncated rows.
    """
    keep_first, keep_second = longest_first(first.lengths, second.lengths, max_length - 2 - paired * tokenizer.middle)
    cut = (keep_first < first.lengths) | (keep_second < second.lengths)
    first, second = first.head(keep_first), second.head(keep_second)
    a, b = first.lengths, second.lengths
    ends = offsets(a + b + 2 + paired * tokenizer.middle)
    values = np.full(ends[-1], tokenizer.sep_id, np.uint32)
    values[ends[:-1]] = tokenizer.cls_id
    values[positions(ends[:-1] + 1, a)] = first.values
    if len(second.values):
        values[positions(ends[:-1] + a + 1 + tokenizer.middle, b)] = second.values
    return Ragged(values, ends), a + 2, cut


def longest_first(first: np.ndarray, second: np.ndarray, room: np.ndarray | int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths that fit into `room` together: the longer is cut until both are equal, then both in turn."""
    over = np.maximum(first + second - room, 0)
    gap = first - second
    from_longer = np.minimum(over, np.abs(gap))
    rest = over - from_longer
    take_first = np.where(gap > 0, from_longer, 0) + rest // 2
    take_second = np.where(gap < 0, from_longer, 0) + (rest + 1) // 2
    return first - take_first, second - take_second


def lists(ids: Ragged, kind: pa.ListType) -> pa.ListArray:
    """A ragged array as Arrow's lists of `kind`."""
    values = pa.array(ids.values.astype(kind.value_type.to_pandas_dtype()))
    return pa.ListArray.from_arrays(pa.array(ids.offsets, pa.int32()), values, type=kind)


def nested(ids: Ragged, count: int, kind: pa.ListType) -> pa.ListArray:
    """A ragged array as rows of `count` lists each."""
    rows = pa.array(np.arange(0, len(ids.lengths) + 1, count), pa.int32())
    return pa.ListArray.from_arrays(rows, lists(ids, kind.value_type), type=kind)


def labels(batch: pa.RecordBatch, task: Task) -> pa.Array:
    """Ids of the labels; null if the split has no labels. Raises InputError for an unknown label."""
    if "label" not in batch.schema.names:
        return pa.nulls(batch.num_rows, pa.int32())
    names = {name: i for i, name in enumerate(task.labels)}
    row_labels = batch.column("label").to_pylist()
    for row_id, label in zip(batch.column("id").to_pylist(), row_labels, strict=True):
        if label is not None and label not in names:
            raise InputError(f"row {row_id}: the label {label!r} is not one of {', '.join(task.labels)}")
    return pa.array([None if label is None else names[label] for label in row_labels], pa.int32())


def _numbers(batch: pa.RecordBatch) -> pa.Array:
    there = "label" in batch.schema.names
    return batch.column("label").cast(pa.float32()) if there else pa.nulls(batch.num_rows, pa.float32())
