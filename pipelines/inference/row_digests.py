"""Digests of rows: of a task's inputs alone, since the answer for a row depends on nothing else of it."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa

SIZE_BYTES = 16  # two rows of a billion have the same digest with a probability below 1e-20


def digests(inputs: pa.Table) -> np.ndarray:
    """The digests of rows, (n, 2) uint64: BLAKE2b of every input's bytes, each after its length.

    Args:
        inputs: (n,) with the inputs of a task, text or lists of text without nulls, see `columns.inputs`.
    """
    joined = b"".join(blake2b(row, digest_size=SIZE_BYTES).digest() for row in framed(inputs))
    return np.frombuffer(joined, "<u8").reshape(-1, 2)


def framed(inputs: pa.Table | pa.RecordBatch) -> Iterator[bytes]:
    """The bytes of each row's inputs, each after its length, so that no two rows give the same bytes."""
    columns: list[Iterable[bytes]] = []
    for column in inputs.columns:
        several = pa.types.is_list(column.type)
        values: list[Any] = column.cast(pa.list_(pa.binary()) if several else pa.binary()).to_pylist()
        columns.append(map(framed_texts if several else framed_text, values))
    return map(b"".join, zip(*columns, strict=True))


def framed_texts(values: list[bytes]) -> bytes:
    """A list of texts after their number."""
    return _length(values) + b"".join(map(framed_text, values))


def framed_text(value: bytes) -> bytes:
    """A text after its length."""
    return _length(value) + value


def _length(value: bytes | list[bytes]) -> bytes:
    return len(value).to_bytes(8, "little")
