"""Batches of texts that belong together."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipelines.core import schema, tables
from pipelines.core.errors import InputError
from pipelines.core.task import Task
from pipelines.entries.pretrain import Pretrain
from pipelines.models.batch import IGNORE
from pipelines.objectives import contrast, mlm, nsp
from pipelines.pretraining.corrupted_batches import CorruptedBatches
from pipelines.text import tokenizer
from pipelines.text.encoding import positive_pair, sequence
from tests.support import tiny

ROWS = [
    {"id": "a-0", "text": "映画の公開日", "text_pair": "監督が語る、映画の公開日が決定"},
    {"id": "b-0", "text": "試合は決着", "text_pair": "延長の末に"},
    {"id": "a-1", "text": "映画の公開日", "text_pair": "私は映画が好き。"},
]
ENTRY = Pretrain(data="d", start="s", objective="contrast", epochs=2, batch_size=3, learning_rate=1e-3)


@pytest.fixture
def encoded(checkout: Path) -> Path:
    folder = checkout / "encoded"
    loaded = tokenizer.load(tiny.tokenizer(folder / "tokenizer"))
    batch = pa.RecordBatch.from_pylist(ROWS, schema=schema.ROWS["positive_pair"])
    ids, cut = positive_pair.encode(batch, loaded, Task("t", "positive_pair"), 12)
    assert not cut.any()
    tables.write(folder / "train.parquet", iter([ids]), schema.encoded("positive_pair", loaded.vocab_size))
    tiny.describe(folder, Task("t", "positive_pair"), 12, loaded.vocab_size)
    return folder


def batches(folder: Path, objective: object = contrast, params: object = contrast.Params(select=0)) -> CorruptedBatches:
    return CorruptedBatches(objective, params, folder, tokenizer.load(folder / "tokenizer"), ENTRY)


def test_each_text_is_a_sequence_and_rows_of_one_first_text_are_known(encoded: Path) -> None:
    loaded, pairs = tokenizer.load(encoded / "tokenizer"), batches(encoded)
    assert len(pairs) == 2
    for step in range(2):
        batch = pairs[step]
        assert batch["input_ids"].shape[:2] == (3, 2)
        order = [int(np.flatnonzero((batch["document"] == n).numpy())[0]) for n in (0, 1)]
        assert sorted(batch["document"].tolist()) == [0, 0, 1]
        assert (batch["labels"] == IGNORE).all()
        shown = batch["input_ids"][order[1]]
        inside = batch["attention_mask"][order[1]].bool()
        for ids, mask, text in zip(shown, inside, ("試合は決着", "延長の末に"), strict=True):
            expected = [loaded.cls_id, *loaded.encode([text]).values.tolist(), loaded.sep_id]
            assert ids[mask].tolist() == expected
    assert not pairs[0]["input_ids"].equal(pairs[1]["input_ids"])
    lengths = pairs.inner.data.lengths
    assert pairs.padding == pytest.approx(1 - lengths.sum() / (6 * lengths.max()))


def test_tokens_of_both_are_masked(encoded: Path) -> None:
    batch = batches(encoded, params=contrast.Params(select=1.0, mask=1.0, random=0.0))[0]
    masked = batch["labels"] != IGNORE
    assert masked.any(dim=-1).all()
    assert (batch["input_ids"][masked] == tokenizer.load(encoded / "tokenizer").mask_id).all()


@pytest.mark.parametrize(("name", "objective"), [("mlm", mlm), ("nsp", nsp)])
def test_what_learns_from_documents_refuses_them(name: str, objective: object, encoded: Path) -> None:
    with pytest.raises(InputError, match=f"{name} learns from rows of kind text; these are of positive_pair"):
        batches(encoded, objective, objective.Params())  # type: ignore[attr-defined]


def test_rows_of_a_task_are_refused(encoded: Path) -> None:
    loaded = tokenizer.load(encoded / "tokenizer")
    rows = pa.RecordBatch.from_pylist([{"id": "0", "text": "映画", "label": "a"}], schema=schema.ROWS["single"])
    ids, _ = sequence.encode(rows, loaded, Task("t", "single", ("a",)), 12)
    tables.write(encoded / "train.parquet", iter([ids]), schema.encoded("single", loaded.vocab_size))
    tiny.describe(encoded, tiny.TASK, 12, loaded.vocab_size)
    with pytest.raises(
        InputError, match="contrast learns from rows of kind text or positive_pair; these are of single"
    ):
        batches(encoded)


def test_one_row_has_nothing_to_be_told_from(encoded: Path) -> None:
    table = tables.read(encoded / "train.parquet").slice(0, 1)
    tables.write(encoded / "train.parquet", iter(table.to_batches()), table.schema)
    with pytest.raises(InputError, match="there is only one positive pair"):
        batches(encoded)


def test_texts_are_cut_each_on_its_own(encoded: Path) -> None:
    loaded = tokenizer.load(encoded / "tokenizer")
    batch = pa.RecordBatch.from_pylist(ROWS, schema=schema.ROWS["positive_pair"])
    whole, _ = positive_pair.encode(batch, loaded, Task("t", "positive_pair"), 64)
    short, cut = positive_pair.encode(batch, loaded, Task("t", "positive_pair"), 6)
    assert cut.tolist() == [any(len(text) > 6 for text in row) for row in whole.column("input_ids").to_pylist()]
    assert cut.any()
    for long_row, row in zip(whole.column("input_ids").to_pylist(), short.column("input_ids").to_pylist(), strict=True):
        for text, ids in zip(long_row, row, strict=True):
            assert ids == (text if len(text) <= 6 else [*text[:5], loaded.sep_id])
    assert short.column("length").to_pylist() == [sum(map(len, row)) for row in short.column("input_ids").to_pylist()]
