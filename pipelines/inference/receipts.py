"""Receipts: for each answer, who signed that this model answered this row with it.

A receipt names the model, the digest of its files, the commit of the code, and the digests of the row's inputs and of
its answer. Its HMAC-SHA256 is over all of these and the id of the key. It depends on nothing beside: the same row has
the same receipt in any partition, order or process, and over HTTP.
"""

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipelines.core.canonical_json import canonical
from pipelines.inference import row_digests
from pipelines.inference.receipt_keys import ReceiptKey

COLUMN = "receipt"
FORMAT = 1
SIGNATURE = "hmac"
UNSIGNED = ("id", "scores")  # of a prediction: a number of the request, and what is answered only on demand
TYPE = pa.struct(
    [
        ("key", pa.string()),
        ("kind", pa.string()),  # of the task: it says which columns are inputs
        ("model", pa.string()),
        ("version", pa.int64()),
        ("model_digest", pa.string()),
        ("commit", pa.string()),
        ("input", pa.string()),
        ("answer", pa.string()),
        (SIGNATURE, pa.string()),
    ]
)
FIELDS = tuple(field.name for field in TYPE)
Receipt = dict[str, Any]


@dataclass(frozen=True)
class AnsweringModel:
    """The facts that all answers of a version share."""

    kind: str
    model: str
    version: int
    model_digest: str


@dataclass(frozen=True)
class Signer:
    """A key, and the commit of the code that answers, with `-dirty` if it was edited; "" if it is not known."""

    key: ReceiptKey
    commit: str

    def receipts(self, model: AnsweringModel, inputs: pa.Table, answers: list[dict[str, Any]]) -> Iterator[Receipt]:
        """The receipt of each row.

        Args:
            inputs: (n,) with the inputs of the task, text or lists of text without nulls.
            answers: n predictions, rows of schema.PREDICTIONS; `id` and `scores` are left out. The rest is signed,
                `entity_scores` too: a caller may act on a score as on an entity.
        """
        facts = {"key": self.key.id, **vars(model), "commit": self.commit}
        for row, answer in zip(row_digests.framed(inputs), answers, strict=True):
            receipt = facts | {"input": input_digest(row), "answer": answer_digest(answer)}
            yield receipt | {SIGNATURE: signature(receipt, self.key)}


def input_digest(framed: bytes) -> str:
    """The digest of a row's inputs (`row_digests.framed`)."""
    return hashlib.sha256(framed).hexdigest()


def answer_digest(answer: Mapping[str, Any]) -> str:
    """The digest of an answer, to the last bit of its numbers."""
    return hashlib.sha256(
        canonical({name: value for name, value in answer.items() if name not in UNSIGNED})
    ).hexdigest()


def signature(receipt: Receipt, key: ReceiptKey) -> str:
    """The HMAC-SHA256 of a receipt's other fields."""
    signed = {name: receipt[name] for name in FIELDS if name != SIGNATURE}
    return hmac.digest(key.secret, canonical(signed | {"format": FORMAT}), "sha256").hex()


def is_signed(receipt: Receipt, key: ReceiptKey) -> bool:
    """Return whether the HMAC of a receipt is the key's."""
    held = receipt.get(SIGNATURE)
    return isinstance(held, str) and hmac.compare_digest(held.encode(), signature(receipt, key).encode())
