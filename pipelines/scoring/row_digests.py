"""Digests of rows: of a task's inputs alone, since the answer for a row depends on nothing else of it."""

from collections.abc import Iterator
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
    columns = [_framed(column) for column in inputs.columns]
    joined = b"".join(blake2b(b"".join(row), digest_size=SIZE_BYTES).digest() for row in zip(*columns, strict=True))
    return np.frombuffer(joined, "<u8").reshape(-1, 2)


def _framed(column: pa.ChunkedArray) -> Iterator[bytes]:
    """The bytes of each value after their number, so that no two rows give the same bytes."""
    several = pa.types.is_list(column.type)
    values: list[Any] = column.cast(pa.list_(pa.binary()) if several else pa.binary()).to_pylist()
    if several:
        return (_length(texts) + b"".join(_length(text) + text for text in texts) for texts in values)
    return (_length(text) + text for text in values)


def _length(value: bytes | list[bytes]) -> bytes:
    return len(value).to_bytes(8, "little")
