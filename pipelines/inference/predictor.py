"""The one predictor: evaluate, the HTTP service, the batch job and the registered model all call it."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from pipelines.core import schema
from pipelines.core.errors import InputError, choices
from pipelines.core.ragged import Ragged, by_length, model_inputs
from pipelines.core.task import Task
from pipelines.inference import decoding, runtimes
from pipelines.text import encoding, tokenizer

BATCH_TOKENS = 4096  # of a padded batch; bounds its memory whatever the lengths


class Predictor:
    """Rows in, what the model says of each out, in the same order."""

    def __init__(self, runtime: runtimes.Runtime, folder: Path) -> None:
        self.runtime = runtime
        self.task: Task = runtime.task
        self.tokenizer = tokenizer.load(folder)
        self.max_length = min(tokenizer.max_length(folder) or runtime.positions, runtime.positions)
        self.truncated = 0  # rows cut to max_length so far

    @classmethod
    def load(cls, folder: Path, runtime: str = "torch") -> "Predictor":
        """The fine-tuned model in `folder`: models/<run> for "torch", onnx/<run> for "onnx"."""
        return cls(runtimes.load(folder, runtime), folder)

    def predict(self, rows: pa.Table | pa.RecordBatch) -> pa.Table:
        """Predictions (schema.PREDICTIONS) for rows with the task's input columns; `id` is kept where there is one."""
        batch = self._inputs(rows)
        encoded, cut = encoding.for_kind(self.task.kind).encode(batch, self.tokenizer, self.task, self.max_length)
        self.truncated += cut
        answers = decoding.FOR_KIND[self.task.kind](batch, encoded, self._outputs(encoded), self.task)
        return answers.add_column(0, "id", rows.column("id")) if "id" in rows.schema.names else answers

    def _outputs(self, encoded: pa.RecordBatch) -> decoding.Outputs:
        """What the model says of each sequence; sequences of like length go together."""
        ids, first = encoded.column("input_ids"), None
        if pa.types.is_list(ids.values.type):
            ids, first = ids.flatten(), encoded.column("first_lengths").flatten()
        elif "first_length" in encoded.schema.names:
            first = encoded.column("first_length")
        ragged = Ragged(ids.values.to_numpy(), ids.offsets.to_numpy().astype(np.int64))
        first_length = ragged.lengths if first is None else first.to_numpy()
        found: dict[int, np.ndarray] = {}
        for chosen in by_length(ragged.lengths, BATCH_TOKENS):
            inputs = model_inputs(ragged, chosen, first_length, self.tokenizer.pad_id, self.max_length)
            logits = self.runtime.logits(inputs)
            found |= zip(chosen.tolist(), logits, strict=True)
        return [found[i] for i in range(len(ragged.lengths))]

    def _inputs(self, rows: pa.Table | pa.RecordBatch) -> pa.RecordBatch:
        """The input columns of `rows` as one record batch, or one sentence."""
        fields = [schema.ROWS[self.task.kind].field(name) for name in schema.INPUTS[self.task.kind]]
        columns = [_column(rows, field, len(self.task.labels)) for field in fields]
        ids = pa.array(map(str, range(rows.num_rows)), pa.string())
        return pa.RecordBatch.from_arrays([ids, *columns], names=["id", *(field.name for field in fields)])


def _column(rows: pa.Table | pa.RecordBatch, field: pa.Field, choices_each: int) -> pa.Array:
    """The column that `field` asks for: text, or a list of texts, and nothing missing."""
    name = field.name
    if name not in rows.schema.names:
        raise InputError(choices("column", name, rows.schema.names))
    column = rows.column(name)
    several = pa.types.is_list(field.type)
    given = column.type.value_type if several and pa.types.is_list(column.type) else column.type
    text = pa.types.is_string(given) or pa.types.is_large_string(given)
    if len(column) and not (text and pa.types.is_list(column.type) == several):
        raise InputError(
            f"the column {name!r} holds {column.type}; {'lists of text' if several else 'text'} is expected"
        )
    if column.null_count:
        raise InputError(f"the column {name!r}: row {column.is_null().to_pylist().index(True)} has no text")
    for row, options in enumerate(column.to_pylist() if several else []):
        if len(options) != choices_each or None in options:
            raise InputError(f"the column {name!r}: row {row} has {len(options)} choices; {choices_each} are expected")
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return flat.cast(field.type)
