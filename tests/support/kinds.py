"""Rows of every kind, as readable rows and as ids, and models of every family for them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch

from pipelines.checkpoints import new_head
from pipelines.core import schema, tables
from pipelines.core.errors import InputError
from pipelines.core.task import Task
from pipelines.text import encoding, tokenizer
from pipelines.training.batches import Encoded
from tests.support import tiny

FAMILIES = ("bert", "roberta", "albert", "electra", "distilbert", "xlnet", "mobilebert", "deberta-v2", "modernbert")
TASKS = {
    "single": Task("t", "single", tiny.LABELS, "accuracy"),
    "pair": Task("t", "pair", ("no", "yes"), "accuracy"),
    "regression": Task("t", "regression", (), "pearson"),
    "span": Task("t", "span", (), "f1", language="ja"),
    "tagging": Task("t", "tagging", ("animal", "time"), "f1", units="characters"),
    "choice": Task("t", "choice", ("0", "1", "2"), "accuracy"),
}


def rows(kind: str, count: int = 24) -> pa.Table:
    """Rows that a model can memorize."""
    words = ["犬", "映画", "試合", "公開日"]
    listed: list[dict[str, Any]] = []
    for i in range(count):
        word = words[i % len(words)]
        text = f"私は{word}が好き。" + "監督が語る、" * (i % 3)
        row: dict[str, Any] = {"id": str(i), "text": text, "text_pair": words[i // 4 % 4], "label": None}
        if kind == "single":
            row["label"] = tiny.LABELS[i % len(words) % 3]
        elif kind == "pair":
            row["label"] = "yes" if row["text_pair"] == word else "no"
        elif kind == "regression":
            row["label"] = float(i % len(words))
        elif kind == "span":
            row |= {"question": "何が好き", "context": text, "answers": [{"text": word, "start": 2}]}
        elif kind == "tagging":
            row["entities"] = [{"start": 2, "end": 2 + len(word), "label": "animal" if word == "犬" else "time"}]
        else:
            row |= {"choices": [words[(i + k) % 3] for k in range(3)], "label": str(-i % 3)}  # the dog
        listed.append({name: row[name] for name in schema.ROWS[kind].names})
    return pa.Table.from_pylist(listed, schema=schema.ROWS[kind])


def batch(kind: str, *rows: dict[str, Any]) -> pa.RecordBatch:
    """These rows as a record batch, with ids."""
    numbered = [{"id": str(i), **row} for i, row in enumerate(rows)]
    return pa.RecordBatch.from_pylist(numbered, schema=schema.ROWS[kind])


def encoded(kind: str, folder: Path, source: Path) -> Encoded:
    """The rows of a kind, encoded by the tokenizer in `source` and read from a Parquet file in `folder`."""
    loaded, task = tokenizer.load(source), TASKS[kind]
    (whole,) = rows(kind).combine_chunks().to_batches()
    ids, _ = encoding.for_kind(kind).encode(whole, loaded, task, 32)
    tables.write(folder / "train.parquet", iter([ids]), schema.encoded(kind, loaded.vocab_size))
    tiny.describe(folder, task, 32, loaded.vocab_size)
    return Encoded.read(folder, "train")


def model_and_rows(kind: str, family: str, place: Path, head: str = "native") -> tuple[torch.nn.Module, Encoded]:
    """A model of `family` without dropout, and rows for it; skips the test if the family has no such head."""
    source = tiny.of_family(family, place / "encoder")
    torch.manual_seed(2)
    try:
        model = new_head.for_task(source, TASKS[kind], head).eval()
    except InputError:
        pytest.skip("the family has no such head")
    return model, encoded(kind, place / "encoded", source)
