"""Encode documents for pretraining, whole and without special tokens; packing adds these."""

import numpy as np
import pyarrow as pa

from pipelines.core import schema
from pipelines.core.task import Task
from pipelines.text.encoding import Encoded
from pipelines.text.encoding.sequence import lists
from pipelines.text.protocol import Tokenizer


def encode(batch: pa.RecordBatch, tokenizer: Tokenizer, task: Task, max_length: int) -> Encoded:
    """Turn rows of text into ids without special tokens. Nothing is truncated; `max_length` is for packed sequences."""
    fields = schema.encoded(task.kind, tokenizer.vocab_size)
    ids = tokenizer.encode(batch.column("text").to_pylist())
    columns = [batch.column("id"), lists(ids, fields.field("input_ids").type), pa.array(ids.lengths, pa.uint32())]
    return pa.RecordBatch.from_arrays(columns, schema=fields), np.zeros(batch.num_rows, bool)
