"""Encode positive pairs, such as a title and a passage: each text is a sequence of its own, [CLS] text [SEP]."""

import numpy as np
import pyarrow as pa

from pipelines.core import schema
from pipelines.core.ragged import Ragged
from pipelines.core.task import Task
from pipelines.text.encoding import Encoded
from pipelines.text.encoding.sequence import join, nested
from pipelines.text.protocol import Tokenizer


def encode(batch: pa.RecordBatch, tokenizer: Tokenizer, task: Task, max_length: int) -> Encoded:
    """Turn rows into two sequences each; also marks the rows with a truncated sequence."""
    texts = zip(batch.column("text").to_pylist(), batch.column("text_pair").to_pylist(), strict=True)
    first = tokenizer.encode([text for row in texts for text in row])
    alone = np.zeros(2 * batch.num_rows, bool)
    second = Ragged(first.values[:0], np.zeros_like(first.offsets))
    ids, _, cut = join(first, second, alone, tokenizer, max_length)
    fields = schema.encoded(task.kind, tokenizer.vocab_size)
    lengths = pa.array(ids.lengths.reshape(-1, 2).sum(axis=1), pa.uint32())
    columns = [batch.column("id"), nested(ids, 2, fields.field("input_ids").type), lengths]
    return pa.RecordBatch.from_arrays(columns, schema=fields), np.asarray(cut.reshape(-1, 2).any(axis=1))
