"""Single texts and pairs: [CLS] text [SEP], or [CLS] text [SEP] text_pair [SEP], cut to a length (BERT, figure 2)."""

import numpy as np
import pyarrow as pa

from pipelines.core import schema
from pipelines.core.errors import InputError
from pipelines.core.ragged import Ragged, offsets, positions
from pipelines.core.task import Task
from pipelines.text.tokenizer import Tokenizer


def encode(batch: pa.RecordBatch, tokenizer: Tokenizer, task: Task, max_length: int) -> tuple[pa.RecordBatch, int]:
    """Rows to ids with special tokens; also how many rows were cut.

    A pair is cut longest first: a token at a time from the longer text, from the second when they are equal, which is
    what transformers' `longest_first` does.
    """
    first = tokenizer.encode(batch.column("text").to_pylist())
    special = 3 if task.kind == "pair" else 2
    room = max_length - special
    if task.kind == "pair":
        second = tokenizer.encode(batch.column("text_pair").to_pylist())
    else:
        second = Ragged(first.values[:0], np.zeros_like(first.offsets))
    keep_first, keep_second = longest_first(first.lengths, second.lengths, room)
    cut = int(((keep_first < first.lengths) | (keep_second < second.lengths)).sum())
    ids = _join(first.head(keep_first), second.head(keep_second), tokenizer, task.kind == "pair")
    fields = schema.encoded(task.kind, tokenizer.vocab_size)
    columns = {
        "id": batch.column("id"),
        "input_ids": lists(ids, fields.field("input_ids").type),
        "length": pa.array(ids.lengths, pa.uint32()),
        "first_length": pa.array(keep_first + 2, pa.uint32()),
        "label": _labels(batch, task),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in fields.names], schema=fields), cut


def longest_first(first: np.ndarray, second: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths that fit into `room` together, taking from the longer one until they are equal, then from both in turn."""
    over = np.maximum(first + second - room, 0)
    gap = first - second
    from_longer = np.minimum(over, np.abs(gap))
    rest = over - from_longer
    take_first = np.where(gap > 0, from_longer, 0) + rest // 2
    take_second = np.where(gap < 0, from_longer, 0) + (rest + 1) // 2
    return first - take_first, second - take_second


def _join(first: Ragged, second: Ragged, tokenizer: Tokenizer, pair: bool) -> Ragged:
    """Put the special tokens around one text or two, in one pass over flat arrays."""
    a, b = first.lengths, second.lengths
    lengths = a + b + (3 if pair else 2)
    ends = offsets(lengths)
    values = np.full(ends[-1], tokenizer.sep_id, np.uint32)
    values[ends[:-1]] = tokenizer.cls_id
    values[positions(ends[:-1] + 1, a)] = first.values
    if pair:
        values[positions(ends[:-1] + a + 2, b)] = second.values
    return Ragged(values, ends)


def lists(ids: Ragged, kind: pa.ListType) -> pa.ListArray:
    values = pa.array(ids.values.astype(kind.value_type.to_pandas_dtype()))
    return pa.ListArray.from_arrays(pa.array(ids.offsets, pa.int32()), values, type=kind)


def _labels(batch: pa.RecordBatch, task: Task) -> pa.Array:
    """Label names to ids; null where the split has none."""
    if "label" not in batch.schema.names:
        return pa.nulls(batch.num_rows, pa.int32())
    names = {name: i for i, name in enumerate(task.labels)}
    labels = batch.column("label").to_pylist()
    for row_id, label in zip(batch.column("id").to_pylist(), labels, strict=True):
        if label is not None and label not in names:
            raise InputError(f"row {row_id}: the label {label!r} is none of {', '.join(task.labels)}")
    return pa.array([None if label is None else names[label] for label in labels], pa.int32())
