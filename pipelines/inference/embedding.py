"""Embed texts: a vector for each, from the encoder of any model folder."""

from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.core.errors import UsageError, choices
from pipelines.core.opened_folder import Folder, OpenedFolder
from pipelines.core.task import Task
from pipelines.evaluation.predictions import Rows
from pipelines.inference import encoder_runtimes, runtimes
from pipelines.inference.decoding import Outputs
from pipelines.inference.predictor import Predictor, inputs
from pipelines.text.encoding import Encoded, sequence

KIND = encoder_runtimes.EMBEDDING
POOLINGS = ("mean", "cls")
TEXT = Task("text", "single")  # each text is one sequence
FIELDS = pa.schema(
    [
        pa.field("vector", pa.list_(pa.float32()), nullable=False),
        pa.field("tokens", pa.int32(), nullable=False),  # the number of tokens that were read
    ]
)


class Embedder(Predictor):
    """An encoder with its tokenizer: takes rows with a column `text`, and returns a vector for each."""

    def __init__(
        self, runtime: runtimes.Runtime, folder: Folder, pooling: str = "mean", normalize: bool = False
    ) -> None:
        if pooling not in POOLINGS:
            raise UsageError(choices("pooling", pooling, POOLINGS))
        super().__init__(runtime, folder)
        self.pooling, self.normalize = pooling, normalize

    @classmethod
    def load(
        cls,
        folder: Folder,
        runtime: str = "",
        accelerate: bool = True,
        threads: int = 0,
        precision: str = runtimes.FP32,
        pooling: str = "mean",
        normalize: bool = False,
    ) -> "Embedder":
        """The encoder in `folder`: that of a pretrained or a fine-tuned model by torch, an export by ONNX Runtime.

        Args:
            pooling: "mean", the mean of the states of all tokens, [CLS] and [SEP] too; or "cls", the state of [CLS].
            normalize: make each vector's length 1.
        """
        folder = OpenedFolder.of(folder)
        encoder = encoder_runtimes.load(folder, runtime, accelerate, threads, precision)
        return cls(encoder, folder, pooling, normalize)

    def encode_and_mark(self, rows: Rows) -> Encoded:
        """The sequence of each text: [CLS] text [SEP], cut to `max_length`; and whether it was cut, bool (R,)."""
        encoded, cut = sequence.encode(inputs(rows, TEXT), self.tokenizer, TEXT, self.max_length)
        self.truncated += int(cut.sum())
        return encoded, cut

    def decode(self, rows: Rows, encoded: pa.RecordBatch, outputs: Outputs) -> pa.Table:
        """The vectors (FIELDS) for `rows`, given what `encode` and `forward` returned for them."""
        lengths = encoded.column("length").to_pylist()
        vectors = [self._pooled(tokens[:length]) for tokens, length in zip(outputs, lengths, strict=True)]
        columns = [pa.array(vectors, FIELDS.field("vector").type), pa.array(lengths, pa.int32())]
        answers = pa.Table.from_arrays(columns, schema=FIELDS)
        return answers.add_column(0, "id", rows.column("id")) if "id" in rows.schema.names else answers

    def _pooled(self, tokens: np.ndarray) -> np.ndarray:
        """The vector (H,) of a text, from the states (T, H) of its tokens, without padding."""
        vector = tokens[0] if self.pooling == "cls" else tokens.mean(axis=0, dtype=np.float64).astype(np.float32)
        return unit(vector) if self.normalize else vector


def unit(vector: Any) -> np.ndarray:
    """The vector, float32, divided by its length; a vector of length 0 stays as it is."""
    wide = np.asarray(vector, np.float64)
    return (wide / (np.linalg.norm(wide) or 1.0)).astype(np.float32)
