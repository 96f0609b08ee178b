"""Batches by number: `batches[step]` depends on the data, the seed and the step alone.

A resumed run therefore asks for its next step and draws what an unbroken run would have drawn; there is no
iterator to wind forward. B rows, T tokens.
"""

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import torch

from pipelines.core import seeding, tables
from pipelines.core.errors import InputError
from pipelines.core.ragged import positions
from pipelines.models.batch import Batch


class Batches(Protocol):
    """What `fit` trains on."""

    def __len__(self) -> int:
        """Steps in the whole training."""

    def __getitem__(self, step: int) -> Batch: ...

    def fingerprint(self) -> str:
        """A digest of everything that decides what the batches hold."""


@dataclass(frozen=True)
class Encoded:
    """One encoded split in memory, ragged: row i is `ids[offsets[i]:offsets[i + 1]]`."""

    ids: np.ndarray  # (tokens,) uint16 or uint32
    offsets: np.ndarray  # (rows + 1,) int64
    first_length: np.ndarray | None = None  # (rows,) tokens of type 0; None where there is one segment
    labels: np.ndarray | None = None  # (rows,) int64

    @classmethod
    def read(cls, folder: Path, split: str) -> "Encoded":
        """The split's Parquet file below encoded/<name>."""
        table = tables.read(folder / f"{split}.parquet").combine_chunks()
        if not table.num_rows:
            raise InputError(f"{folder / split}.parquet: no rows to train on")
        column = table.column("input_ids").chunk(0)
        labels = table.column("label") if "label" in table.column_names else None
        if labels is not None and labels.null_count:
            raise InputError(
                f"{folder / split}.parquet: {labels.null_count} rows have no label; train on another split"
            )
        return cls(
            column.values.to_numpy(),
            column.offsets.to_numpy().astype(np.int64),
            _numbers(table, "first_length"),
            _numbers(table, "label"),
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each row."""
        return np.diff(self.offsets)

    def fingerprint(self) -> str:
        digest = hashlib.sha256(self.ids.tobytes())
        for part in (self.offsets, self.first_length, self.labels):
            digest.update(b"-" if part is None else part.tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class TaskData:
    """What a compression method may train on."""

    train: Encoded
    pad_id: int


def collate(data: Encoded, rows: np.ndarray, pad_id: int) -> Batch:
    """Rows to one padded batch, without a loop over rows: input_ids, attention_mask, token_type_ids (B, T), labels (B,)."""
    lengths = data.lengths[rows]
    inside = np.arange(lengths.max()) < lengths[:, None]  # (B, T)
    ids = np.full(inside.shape, pad_id, np.int64)
    ids[inside] = data.ids[positions(data.offsets[rows], lengths)]
    batch = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(inside.astype(np.int64))}
    if data.first_length is not None:
        second = inside & (np.arange(inside.shape[1]) >= data.first_length[rows][:, None])
        batch["token_type_ids"] = torch.from_numpy(second.astype(np.int64))
    if data.labels is not None:
        batch["labels"] = torch.from_numpy(data.labels[rows])
    return batch


class RowBatches:
    """Every epoch a new permutation of the rows, cut into batches; the last one of an epoch may be short."""

    def __init__(self, data: Encoded, batch_size: int, epochs: float, seed: int, pad_id: int) -> None:
        self.data, self.batch_size, self.seed, self.pad_id = data, batch_size, seed, pad_id
        self.steps_per_epoch = math.ceil(len(data) / batch_size)
        self.steps = max(1, round(epochs * self.steps_per_epoch))
        self._order: tuple[int, np.ndarray] = (-1, np.array([]))

    def __len__(self) -> int:
        return self.steps

    def __getitem__(self, step: int) -> Batch:
        epoch, place = divmod(step, self.steps_per_epoch)
        if self._order[0] != epoch:
            self._order = epoch, seeding.generator(self.seed, "rows", epoch).permutation(len(self.data))
        rows = self._order[1][place * self.batch_size : (place + 1) * self.batch_size]
        return collate(self.data, rows, self.pad_id)

    def fingerprint(self) -> str:
        return f"{self.data.fingerprint()} {self.batch_size} {self.steps} {self.seed} {self.pad_id}"


def _numbers(table: pa.Table, name: str) -> np.ndarray | None:
    return table.column(name).to_numpy().astype(np.int64) if name in table.column_names else None
