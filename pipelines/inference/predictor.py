"""The one predictor: evaluate, the HTTP service, the batch job and the registered model all call it.

It has three steps. `encode` and `decode` work on the rows of one request; `forward` runs the model on the sequences of
one request or of several together.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from pipelines.core import schema
from pipelines.core.errors import InputError, choices
from pipelines.core.opened_folder import Folder, OpenedFolder
from pipelines.core.ragged import Ragged, by_length, model_inputs
from pipelines.core.task import Task
from pipelines.evaluation.predictions import Rows
from pipelines.inference import decoding, runtimes
from pipelines.inference.decoding import Outputs
from pipelines.inference.runtimes import ALONE, PAIRS
from pipelines.text import encoding, tokenizer

Run = Callable[[runtimes.Inputs], np.ndarray]


class Predictor:
    """A model with its tokenizer: takes rows, and returns a prediction for each, in the same order."""

    def __init__(self, runtime: runtimes.Runtime, folder: Folder) -> None:
        folder = OpenedFolder.of(folder)
        self.runtime, self.folder = runtime, folder
        self.task: Task = runtime.task
        self.tokenizer = tokenizer.load(folder)
        if runtime.vocab_size not in (0, self.tokenizer.vocab_size):
            raise InputError(
                f"{folder}: its tokenizer has {self.tokenizer.vocab_size:,} entries, its model {runtime.vocab_size:,}; "
                "was a file of it cut off or replaced?"
            )
        self.max_length = min(tokenizer.max_length(folder) or runtime.positions, runtime.positions)
        self.options = tokenizer.windows(folder) if self.task.kind == "span" else {}
        self.batch_tokens = runtime.batch_tokens
        self.truncated = 0  # the number of rows cut to max_length so far

    @classmethod
    def load(
        cls, folder: Folder, runtime: str = "", accelerate: bool = True, threads: int = 0, precision: str = "fp32"
    ) -> "Predictor":
        """The fine-tuned model in `folder`: models/<run> by torch, onnx/<run> by ONNX Runtime. See `runtimes.load`."""
        folder = OpenedFolder.of(folder)
        return cls(runtimes.load(folder, runtime, accelerate, threads, precision), folder)

    def predict(self, rows: Rows) -> pa.Table:
        """Predictions (schema.PREDICTIONS) for rows with the task's input columns; a column `id` is kept."""
        encoded = self.encode(rows)
        (outputs,) = self.forward([encoded])
        return self.decode(rows, encoded, outputs)

    def encode(self, rows: Rows) -> pa.RecordBatch:
        """The sequences of `rows` (schema.encoded); `id` is the number of the row that they come from, starting at "0".

        A row has one sequence, or one for each window of its context (span), part of its text (tagging) or choice.
        The sequences of all choices of a row share a record; windows and parts have one record each, in order.
        """
        return self.encode_and_mark(rows)[0]

    def encode_and_mark(self, rows: Rows) -> encoding.Encoded:
        """The sequences of `rows` as by `encode`, and for each row whether a part of it is left out, bool (R,).

        A long text of kind tagging, or a long context, is read in several sequences; it is not cut.
        """
        batch = inputs(rows, self.task)
        encode = encoding.for_kind(self.task.kind).encode
        encoded, marked = encode(batch, self.tokenizer, self.task, self.max_length, **self.options)
        self.truncated += int(marked.sum())
        return encoded, marked if self.task.kind != "tagging" else np.zeros_like(marked)

    def forward(self, requests: Sequence[pa.RecordBatch], run: Run | None = None) -> list[Outputs]:
        """The model's outputs for the sequences of each request, in order.

        Sequences of similar length share a batch, whichever request they come from.

        Args:
            requests: what `encode` returned for each; `forward` reads `input_ids` and `first_length(s)` only.
            run: returns the outputs for a batch; by default the logits of the runtime.

        Returns:
            For each request a list with one float32 array for each sequence: (C,) logits of labels, (1,) a number or
            the logit of one choice, (T, C) logits of tags, (T, 2) logits of a span's first and last token. T is the
            padded length of the batch, at least the length of the sequence.
        """
        ids, first_length = _sequences(requests)
        outputs: dict[int, np.ndarray] = {}
        run = run or self.runtime.logits
        for chosen in by_length(ids.lengths, 1 if self.runtime.batching == ALONE else self.batch_tokens):
            twice = len(chosen) == 1 and self.runtime.batching == PAIRS
            together = np.repeat(chosen, 2) if twice else chosen
            inputs = model_inputs(ids, together, first_length, self.tokenizer.pad_id, self.max_length)
            logits = run(inputs)[: len(chosen)]
            runtimes.require_finite(logits)
            outputs |= zip(chosen.tolist(), logits, strict=True)
        ordered: Iterator[np.ndarray] = (outputs[i] for i in range(len(ids.lengths)))
        return [[next(ordered) for _ in range(_count(request))] for request in requests]

    def decode(self, rows: Rows, encoded: pa.RecordBatch, outputs: Outputs) -> pa.Table:
        """Predictions for `rows`, given what `encode` and `forward` returned for them."""
        answers = decoding.FOR_KIND[self.task.kind](rows, encoded, outputs, self.task)
        return answers.add_column(0, "id", rows.column("id")) if "id" in rows.schema.names else answers


def inputs(rows: Rows, task: Task, first: int = 0) -> pa.RecordBatch:
    """The number and the input columns of each row as one record batch.

    Raises InputError for a wrong column or a missing value; its message counts rows from `first`.
    """
    fields = [schema.ROWS[task.kind].field(name) for name in schema.INPUTS[task.kind]]
    columns = [_column(rows, field, len(task.labels), first) for field in fields]
    ids = pa.array(map(str, range(rows.num_rows)), pa.string())
    return pa.RecordBatch.from_arrays([ids, *columns], names=["id", *(field.name for field in fields)])


def _sequences(requests: Sequence[pa.RecordBatch]) -> tuple[Ragged, np.ndarray]:
    """The token ids of all S sequences, and the number of tokens of type 0 in each, (S,)."""
    names = requests[0].schema.names
    columns = {
        name: pa.concat_arrays([request.column(name) for request in requests])
        for name in ("input_ids", "first_length", "first_lengths")
        if name in names
    }
    if "first_lengths" in columns:  # kind choice
        columns = {"input_ids": columns["input_ids"].flatten(), "first_length": columns["first_lengths"].flatten()}
    ids = columns["input_ids"]
    ragged = Ragged(ids.values.to_numpy(), ids.offsets.to_numpy().astype(np.int64))
    return ragged, columns["first_length"].to_numpy() if "first_length" in columns else ragged.lengths


def _count(request: pa.RecordBatch) -> int:
    """The number of sequences in a request."""
    several = "first_lengths" in request.schema.names
    return len(request.column("first_lengths").flatten()) if several else request.num_rows


def _column(rows: Rows, field: pa.Field, choices_each: int, first: int) -> pa.Array:
    """The column that `field` describes: text, or lists of texts. Raises InputError if its type or a value is wrong."""
    name = field.name
    if name not in rows.schema.names:
        raise InputError(choices("column", name, rows.schema.names))
    if not rows.num_rows:
        return pa.array([], field.type)
    column = rows.column(name)
    several = pa.types.is_list(field.type)
    given = column.type.value_type if several and pa.types.is_list(column.type) else column.type
    text = pa.types.is_string(given) or pa.types.is_large_string(given)
    if not (text and pa.types.is_list(column.type) == several):
        raise InputError(
            f"the column {name!r} holds {column.type}; {'lists of text' if several else 'text'} is expected"
        )
    if column.null_count:
        raise InputError(f"the column {name!r}: row {first + column.is_null().to_pylist().index(True)} has no text")
    for row, options in enumerate(column.to_pylist() if several else [], start=first):
        if None in options:
            raise InputError(f"the column {name!r}: row {row}: choice {options.index(None)} is empty")
        if len(options) != choices_each:
            raise InputError(f"the column {name!r}: row {row} has {len(options)} choices; {choices_each} are expected")
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return flat.cast(field.type)
