"""Batches by number: `batches[step]` depends on the data, the seed and the step alone.

A resumed run therefore draws the same batches as an unbroken run; there is no iterator to advance. B rows, T tokens.
"""

import hashlib
import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from pipelines.core import json_file, schema, seeding, tables
from pipelines.core.errors import InputError, shown
from pipelines.core.ragged import Ragged, model_inputs, padded
from pipelines.core.task import Task
from pipelines.models.batch import IGNORE, Batch

READ = ("first_length", "first_lengths", "end_position", "labels")  # columns without nulls; others have their own error


class Batches(Protocol):
    """The batches that `fit` trains on."""

    def __len__(self) -> int:
        """Steps in the whole training."""

    def __getitem__(self, step: int) -> Batch: ...

    def fingerprint(self) -> str:
        """A digest of everything that decides what the batches hold."""


@dataclass(frozen=True)
class Encoded:
    """One encoded split in memory, ragged: sequence i is `ids[offsets[i]:offsets[i + 1]]`.

    A row is one sequence, or `choices` sequences one after another: the options of a choice, or the two texts of a
    positive pair.
    """

    ids: np.ndarray  # (tokens,) uint16 or uint32
    offsets: np.ndarray  # (sequences + 1,) int64
    first_length: np.ndarray | None = None  # (sequences,) tokens of type 0; None if there is one segment
    # (rows,) int64, or float32 for a regression; (rows, 2) first and last token of a span; (tokens,) tags
    labels: np.ndarray | None = None
    choices: int = 1
    tags: bool = False  # whether there is a label for each token

    @classmethod
    def read(cls, folder: Path, split: str) -> "Encoded":
        """Read a split of encoded/<name>. Raises InputError if it has no rows, or rows that cannot be trained on."""
        path, task, (_, size) = folder / f"{split}.parquet", Task.load(folder), sizes(folder)
        table = tables.read(path, schema=schema.encoded(task.kind, size)).combine_chunks()
        if not table.num_rows:
            raise InputError(f"{path}: no rows to train on")
        for name in ("label", "start_position"):
            if name in table.column_names and (count := table.column(name).null_count):
                raise InputError(f"{path}: {count} rows have no label; train on another split")
        for name in table.column_names:  # the schema allows null here, training does not
            if name in READ and (missing := table.column(name).is_null().to_pylist()).count(True):
                raise InputError(f"{path}: row {missing.index(True)} has no {name}; encode it again")
        column, choices = table.column("input_ids").chunk(0), 1
        if pa.types.is_list(column.values.type):
            sequences = pc.list_value_length(column).to_numpy()
            choices = int(sequences[0])
            if (other := sequences != choices).any() or not choices:
                row = _first(other) if choices else 0
                raise InputError(
                    f"{path}: the rows have unequal numbers of sequences, or none: row 0 has {choices}, row {row} "
                    f"{sequences[row]}; encode it again"
                )
            column = column.flatten()
        nested = "first_lengths" in table.column_names
        first = table.column("first_lengths").chunk(0).flatten() if nested else _numbers(table, "first_length")
        ids, offsets = column.values.to_numpy(), column.offsets.to_numpy().astype(np.int64)
        first = None if first is None else np.asarray(first, np.int64)
        data = cls(ids, offsets, first, _labels(table), choices, tags="labels" in table.column_names)
        if data.tags and (other := pc.list_value_length(table.column("labels")).to_numpy() != data.lengths).any():
            raise InputError(f"{path}: row {_first(other)}: the numbers of tags and tokens differ; encode it again")
        if complaint := _complaint(data, task, size):
            raise InputError(f"{path}: {complaint}; encode it again")
        return data

    def __len__(self) -> int:
        return (len(self.offsets) - 1) // self.choices

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each sequence."""
        return np.diff(self.offsets)

    @cached_property
    def longest(self) -> int:
        """Tokens of the longest sequence."""
        return int(self.lengths.max())

    def sample(self, count: int | None, seed: int) -> "Encoded":
        """`count` rows drawn with the seed, in their original order; all rows if there are not more, or no count."""
        if not count or count >= len(self):
            return self
        rows = np.sort(seeding.generator(seed, "sample").permutation(len(self))[:count])
        sequences = (rows[:, None] * self.choices + np.arange(self.choices)).reshape(-1)
        part = Ragged(self.ids, self.offsets).take(sequences)
        labels = self.labels
        if labels is not None:
            labels = Ragged(labels, self.offsets).take(sequences).values if self.tags else labels[rows]
        first = None if self.first_length is None else self.first_length[sequences]
        return replace(self, ids=part.values, offsets=part.offsets, first_length=first, labels=labels)

    def fingerprint(self) -> str:
        digest = hashlib.sha256(self.ids.tobytes())
        for part in (self.offsets, self.first_length, self.labels):
            digest.update(b"-" if part is None else part.tobytes())
        return digest.hexdigest()


def sizes(folder: Path) -> tuple[int, int]:
    """The maximum length of a sequence in encoded/<name>, in tokens, and the size of its vocabulary."""
    path = folder / "encoding.json"
    facts = json_file.mapping(path)
    length, size = facts.get("max_length"), facts.get("vocab_size")
    if not (isinstance(length, int) and isinstance(size, int) and length > 0 < size):
        raise InputError(f"{path}: max_length is {shown(length)}, vocab_size {shown(size)}; whole numbers are expected")
    return length, size


def _complaint(data: Encoded, task: Task, vocab_size: int) -> str:
    """The first value that `encode` would not have written, and its row, in a few words; "" if there is none."""
    lengths, labels, kind, first = data.lengths, data.labels, task.kind, data.first_length
    highest = {"span": data.longest - 1, "tagging": 2 * len(task.labels)}.get(kind, len(task.labels) - 1)
    of_sequences = np.arange(len(lengths)) // data.choices
    if (wrong := data.ids >= vocab_size).any():
        row = np.repeat(of_sequences, lengths)[_first(wrong)]
        return f"row {row}: the id {data.ids[_first(wrong)]} is not below {vocab_size}, the size of the vocabulary"
    if (wrong := lengths < 2).any() and kind != "text":
        return f"row {of_sequences[_first(wrong)]}: a sequence has fewer than the two tokens around each text"
    if first is not None and len(first) != len(lengths):
        return "the numbers of first lengths and sequences differ"
    if first is not None and (wrong := (first < 0) | (first > lengths)).any():
        return f"row {of_sequences[_first(wrong)]}: the first text is longer than its whole sequence"
    if labels is None or kind == "regression":
        wrong = np.zeros(1, bool) if labels is None else ~np.isfinite(labels)
        return f"row {_first(wrong)}: a label is not a finite number" if wrong.any() else ""
    wrong = (labels < 0) & (labels != IGNORE) | (labels > highest)
    if not wrong.any():
        return ""
    place = np.argwhere(wrong)[0]
    row = np.repeat(of_sequences, lengths)[place[0]] if data.tags else place[0]
    return f"row {row}: the label {labels[tuple(place)]} is not a number from 0 to {highest}"


def _first(wrong: np.ndarray) -> int:
    """The index of the first True."""
    return int(np.flatnonzero(wrong)[0])


def collate(data: Encoded, rows: np.ndarray, pad_id: int) -> Batch:
    """Put rows into one padded batch, without a loop over rows.

    input_ids, attention_mask and, if there are two segments, token_type_ids: (B, T), or (B, choices, T). labels: (B,),
    or (B, 2) for a span, or (B, T) for tags.
    """
    sequences = rows if data.choices == 1 else (rows[:, None] * data.choices + np.arange(data.choices)).reshape(-1)
    batch = model_inputs(Ragged(data.ids, data.offsets), sequences, data.first_length, pad_id, data.longest)
    if data.choices > 1:
        batch = {name: array.reshape(len(rows), data.choices, -1) for name, array in batch.items()}
    if data.labels is not None and data.tags:
        batch["labels"], _ = padded(Ragged(data.labels, data.offsets), sequences, IGNORE, data.longest)
    elif data.labels is not None:
        batch["labels"] = data.labels[rows]
    return {name: torch.from_numpy(array) for name, array in batch.items()}


class RowBatches:
    """Batches of the rows, shuffled anew in every epoch; the last batch of an epoch may be short."""

    def __init__(self, data: Encoded, batch_size: int, epochs: float, seed: int, pad_id: int) -> None:
        self.data, self.batch_size, self.seed, self.pad_id = data, batch_size, seed, pad_id
        self.steps_per_epoch = math.ceil(len(data) / batch_size)
        self.steps = max(1, round(epochs * self.steps_per_epoch))
        self._order: tuple[int, np.ndarray] = (-1, np.array([]))

    def __len__(self) -> int:
        return self.steps

    def __getitem__(self, step: int) -> Batch:
        return self.collate(self.rows(step))

    def collate(self, rows: np.ndarray) -> Batch:
        """The rows with these numbers as one batch."""
        return collate(self.data, rows, self.pad_id)

    def rows(self, step: int) -> np.ndarray:
        """The numbers of the rows in the batch of `step`."""
        epoch, place = divmod(step, self.steps_per_epoch)
        if self._order[0] != epoch:
            self._order = epoch, seeding.generator(self.seed, "rows", epoch).permutation(len(self.data))
        return self._order[1][place * self.batch_size : (place + 1) * self.batch_size]

    def fingerprint(self) -> str:
        return f"{self.data.fingerprint()} {self.batch_size} {self.steps} {self.seed} {self.pad_id}"


def _numbers(table: pa.Table, name: str) -> np.ndarray | None:
    return table.column(name).to_numpy().astype(np.int64) if name in table.column_names else None


def _labels(table: pa.Table) -> np.ndarray | None:
    """The labels of the table, in the shape that Encoded has for this kind of rows."""
    if "start_position" in table.column_names:
        return np.stack([table.column(name).to_numpy() for name in ("start_position", "end_position")], 1).astype(int)
    if "labels" in table.column_names:
        return table.column("labels").chunk(0).values.to_numpy().astype(np.int64)
    if "label" not in table.column_names:
        return None
    values = table.column("label").to_numpy()
    return values if values.dtype == np.float32 else values.astype(np.int64)
