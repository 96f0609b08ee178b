"""Predict the pieces that an encoder would put in place of [MASK]."""

import copy
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipelines.core.errors import InputError, RowError, UsageError
from pipelines.core.opened_folder import Folder, OpenedFolder
from pipelines.evaluation.predictions import Rows, softmax
from pipelines.inference import encoder_runtimes, runtimes
from pipelines.inference.decoding import Outputs
from pipelines.inference.embedding import TEXT
from pipelines.inference.encoder_runtimes import Encoder
from pipelines.inference.predictor import Predictor, inputs
from pipelines.inference.runtimes import FP32
from pipelines.text.encoding import Encoded

KIND = encoder_runtimes.FILL_MASK
MASK = "[MASK]"
TOP = 20  # guesses for each [MASK]
_GUESS = pa.struct([("piece", pa.string()), ("id", pa.int32()), ("score", pa.float32())])  # score: a probability
FIELDS = pa.schema([pa.field("guesses", pa.list_(pa.list_(_GUESS)), nullable=False)])  # a list for each [MASK]


class Guess(NamedTuple):
    """A piece of the vocabulary and its probability."""

    piece: str
    probability: float


class MaskFiller(Predictor):
    """An encoder with its masked-token head: takes rows with a column `text`, and returns guesses for each [MASK]."""

    def __init__(self, encoder: Encoder, folder: Folder) -> None:
        if not encoder.has_mask_head:
            raise InputError(
                f"{folder}: the encoder has no masked-token head; pretraining keeps one, fine-tuning does not"
            )
        super().__init__(encoder.of_kind(KIND), folder)
        self.encoder, self.top = encoder, TOP

    def with_top(self, top: int) -> "MaskFiller":
        """The same encoder with another number of guesses. Raises UsageError for none."""
        if not isinstance(top, Integral) or top < 1:
            raise UsageError(f"top: {top}; 1 or more guesses are expected")
        other = copy.copy(self)
        other.top = top
        return other

    @classmethod
    def load(
        cls,
        folder: Folder,
        runtime: str = "",
        accelerate: bool = True,
        threads: int = 0,
        precision: str = FP32,
    ) -> "MaskFiller":
        """The encoder in `folder`, an export by ONNX Runtime. Raises InputError if it has no masked-token head."""
        folder = OpenedFolder.of(folder)
        return cls(encoder_runtimes.load(folder, runtime, accelerate, threads, precision, masked=True), folder)

    def encode_and_mark(self, rows: Rows) -> Encoded:
        """The sequence of each text, which is never cut.

        Raises UsageError for a text without [MASK], and RowError for one with more than `max_length` tokens.
        """
        texts = inputs(rows, TEXT).column("text").to_pylist()
        ids = [self._ids(number, text) for number, text in enumerate(texts)]
        columns = {
            "id": pa.array(map(str, range(len(ids))), pa.string()),
            "input_ids": pa.array(ids, pa.list_(pa.uint32())),
        }
        return pa.RecordBatch.from_pydict(columns), np.zeros(len(ids), bool)

    def _ids(self, number: int, text: str) -> list[int]:
        require_mask(text)
        parts = self.tokenizer.encode(text.split(MASK))
        ids = [self.tokenizer.cls_id]
        for i, (start, end) in enumerate(zip(parts.offsets, parts.offsets[1:], strict=False)):
            ids += [*([self.tokenizer.mask_id] if i else []), *parts.values[start:end].tolist()]
        ids.append(self.tokenizer.sep_id)
        if len(ids) > self.max_length:
            raise RowError("text", number, f"has {len(ids)} tokens; the encoder takes {self.max_length}")
        return ids

    def decode(self, rows: Rows, encoded: pa.RecordBatch, outputs: Outputs) -> pa.Table:
        """The guesses (FIELDS) for `rows`, given what `encode` and `forward` returned for them."""
        sequences = encoded.column("input_ids").to_pylist()
        guesses = [self._guesses(ids, states) for ids, states in zip(sequences, outputs, strict=True)]
        answers = pa.Table.from_arrays([pa.array(guesses, FIELDS.field("guesses").type)], schema=FIELDS)
        return answers.add_column(0, "id", rows.column("id")) if "id" in rows.schema.names else answers

    def _guesses(self, ids: list[int], states: np.ndarray) -> list[list[dict[str, Any]]]:
        """The guesses for each [MASK] of one text, from the states (T, H) of its tokens."""
        masks = [i for i, piece in enumerate(ids) if piece == self.tokenizer.mask_id]
        logits = self.encoder.piece_logits(states[masks])  # (masks, V)
        runtimes.require_finite(logits)
        return [self._best(row) for row in softmax(logits)]

    def _best(self, probabilities: np.ndarray) -> list[dict[str, Any]]:
        """The likeliest pieces, given the probability of each piece of the vocabulary, (V,)."""
        top = min(self.top, len(probabilities))
        ids = np.sort(np.argpartition(-probabilities, top - 1)[:top])
        ids = ids[np.argsort(-probabilities[ids], kind="stable")]
        pieces = self.tokenizer.texts(ids.tolist())
        return [
            {"piece": piece, "id": i, "score": float(probabilities[i])}
            for i, piece in zip(ids.tolist(), pieces, strict=True)
        ]


def fill(folder: Path, text: str, top: int) -> list[list[Guess]]:
    """The `top` most probable pieces for each [MASK] in `text`, by the encoder in `folder`."""
    require_mask(text)
    try:
        (answer,) = MaskFiller.load(folder).with_top(top).predict(pa.table({"text": [text]})).to_pylist()
    except RowError as error:  # there is one row
        raise InputError(f"the text {error.why}") from None
    return [[Guess(guess["piece"], guess["score"]) for guess in guesses] for guesses in answer["guesses"]]


def require_mask(text: str, where: str = "") -> None:
    """Raise UsageError if the text has no [MASK]; its message begins with `where`."""
    if MASK not in text:
        raise UsageError(f"{where}the text has no {MASK}; write it where a word is to be guessed")
