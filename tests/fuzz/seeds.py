"""A whole, small example of every input that is fuzzed, made once in the working folder."""

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import new_head
from pipelines.compression import variant
from pipelines.core import schema, tables
from pipelines.core.errors import InputError
from pipelines.data.corpora import livedoor
from pipelines.export import onnx_export
from pipelines.inference.predictor import Predictor
from pipelines.measurement import drift_profile
from pipelines.scoring import batch_scoring
from pipelines.text import encoding, tokenizer
from pipelines.tracking.ledger_events import Event, digest
from pipelines.tracking.registry import Version
from tests.support import http, own_formats, tiny
from tests.support import kinds as some
from tests.support.file_texts import IOB2, SQUAD
from tests.support.places import ROOT

CHANGED = "changed"  # what reads a mutant returns it if an answer is another one
PARAMS = [str(file) for file in (ROOT / "params.yaml", *sorted((ROOT / "params").glob("*.yaml")))]
KINDS = tuple(some.TASKS)
ARTICLES = {
    f"text/{category}/{category}-{number}.txt": (
        f"http://example.com/{number}\n2010-01-01T00:00:00+0900\n{category}の見出し{number}\n本文です。{number}"
        + "長い。" * 90
    ).encode()
    for category in livedoor.ARTICLES
    for number in (1, 2, 3)
}
_TAGGED = {"text": "犬と猫", "entities": [{"start": 0, "end": 1, "label": "a"}, {"start": 2, "end": 3, "label": "b"}]}
_ASKED = {"question": "何？", "context": "犬がいる。", "answers": [{"text": "犬", "start": 0}]}
_CHOSEN = {"text": "x", "choices": ["a", "b", "c"], "label": 1}
_PAIRS = {"text": "a b", "text_pair": "c d", "label": 1.5}


_FINDING = {"rule": "at_least", "found": 0.5, "asked": 0.0, "passed": True, "sentence": "accuracy 0.5000"}
_VERDICT = {"gate": "enforce", "passed": True, "findings": [_FINDING]}


def _events() -> list[str]:
    """A promotion, another, and the way back."""
    texts: list[str] = []
    for number, (action, version, previous) in enumerate((("promote", 1, None), ("promote", 2, 1), ("rollback", 1, 2))):
        before = digest(texts[-1]) if texts else ""
        event = Event(
            str(number),
            action,  # type: ignore[arg-type]
            version,
            previous,
            number,
            before,
            "me",
            "a test",
            _VERDICT,
        )
        texts.append(event.text())
    return texts


EVENTS = _events()
TAGS = {
    "lineage": json.dumps(
        [{"stage": "finetune@x", "run": "", "read": {"rows": "0" * 32}, "wrote": {"artifacts/models/x": "1" * 32}}]
    ),
    "verdict": json.dumps(_VERDICT),
    "teachers": json.dumps([{"model": "m", "version": 1}]),
}


def _jsonl(*rows: dict[str, Any]) -> bytes:
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode()


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


def _entry(file: str, **more: Any) -> dict[str, Any]:
    return {"corpus": "custom", "source": ".", "files": {"train": file}, **more}


# name -> the entry of prepare, the file that it reads, what that holds
CORPORA: dict[str, tuple[dict[str, Any], str, bytes]] = {
    "csv": (_entry("a.csv"), "a.csv", 'text,label\r\n"猫, です",a\r\n,b\r\n😀😀,a\r\nx,b\r\n'.encode()),
    "tsv": (
        _entry("a.tsv", kind="pair", columns={"text": "one", "text_pair": "two", "id": "n"}, label_names={"0": "no"}),
        "a.tsv",
        b"n\tone\ttwo\tlabel\n1\ta\tb\t0\n2\tc\td\tyes\n3\te\tf\t0\n4\tg\th\tyes\n",
    ),
    "regression": (_entry("b.jsonl", kind="regression"), "b.jsonl", _jsonl(_PAIRS, _PAIRS, _PAIRS)),
    "tagging": (_entry("c.jsonl", kind="tagging", units="characters"), "c.jsonl", _jsonl(_TAGGED, _TAGGED, _TAGGED)),
    "span": (_entry("d.jsonl", kind="span"), "d.jsonl", _jsonl(_ASKED, _ASKED, _ASKED)),
    "choice": (_entry("e.jsonl", kind="choice"), "e.jsonl", _jsonl(_CHOSEN, _CHOSEN, _CHOSEN)),
    "squad": (
        _entry("f.json", kind="span", format="squad", unanswerable=True) | {"files": {"dev": "f.json"}},
        "f.json",
        json.dumps(SQUAD, ensure_ascii=False).encode(),
    ),
    "conll": (_entry("g", kind="tagging", format="conll"), "g", IOB2.encode()),
    "parquet": (
        _entry("h.parquet"),
        "h.parquet",
        _parquet([{"text": f"t{i}", "label": "ab"[i % 2]} for i in range(8)]),
    ),
    "parquet of tags": (_entry("i.parquet", kind="tagging"), "i.parquet", _parquet([_TAGGED] * 4)),
}


def make() -> None:
    """Write `seeds/` and `encoders/` into the working folder."""
    shutil.copytree(ROOT / "encoders", "encoders", ignore=shutil.ignore_patterns("__pycache__"))
    place = Path("seeds")
    tiny.tokenizer(place / "tokenizer")
    tiny.encoder(place / "encoder")
    for kind, task in some.TASKS.items():
        rows, folder = place / kind / "rows", place / kind / "encoded"
        rows.mkdir(parents=True)
        whole = some.rows(kind)
        single_split = task.with_(splits=("train",))
        tables.write(rows / "train.parquet", iter(whole.to_batches()), schema.ROWS[kind])
        single_split.save(rows)
        loaded = tokenizer.load(place / "tokenizer")
        ids, _ = encoding.for_kind(kind).encode(whole.combine_chunks().to_batches()[0], loaded, task, 32)
        tables.write(folder / "train.parquet", iter([ids]), schema.encoded(kind, loaded.vocab_size))
        tiny.describe(folder, single_split, 32, loaded.vocab_size)
        torch.manual_seed(1)
        model = new_head.for_task(place / "encoder", task)
        (place / kind / "model").mkdir()
        model_folder.save(model, place / kind / "model", place / "encoder", task)
        config = json.loads((place / "tokenizer/tokenizer_config.json").read_text())
        config |= {tokenizer.OURS: {"special_tokens": "text", "fingerprint": tokenizer.fingerprint(loaded)}}
        (place / kind / "model/tokenizer_config.json").write_text(json.dumps(config))
    (place / "single/onnx").mkdir()
    onnx_export.export(place / "single/model", place / "single/onnx", 18, 1e-3)
    _own_formats(place)


def _own_formats(place: Path) -> None:
    """A model in each of our own formats, with what `compress` says of it."""
    teacher, step = place / "single/model", {"run": "it", "method": "a", "params": {"epochs": 1}}
    for name in own_formats.NAMES:
        own_formats.save(name, teacher, place / "own" / name, some.TASKS["single"])
        model, task = model_folder.load_tuned(place / "own" / name)
        variant.write(place / "own" / name, model, task.kind, step, "teacher", teacher, {})


@cache
def readable(kind: str) -> pa.Table:
    """The rows that a model is asked for."""
    return pq.read_table(Path("seeds") / kind / "rows/train.parquet", columns=schema.INPUTS[kind])


@cache
def answers(folder: Path, kind: str) -> pa.Table:
    """What the whole model in a folder says of them."""
    return Predictor.load(folder).predict(readable(kind))


@cache
def predictor(kind: str) -> Predictor:
    return Predictor.load(Path("seeds") / kind / "model")


@cache
def scorer(kind: str) -> batch_scoring.Scorer:
    return batch_scoring.Scorer("it", 1, "said_", str(Path("seeds") / kind / "model"))


@cache
def scored(kind: str) -> pa.Table:
    """The rows, as a job has scored them."""
    return pa.concat_tables(batch_scoring.scored_here(Path("seeds") / kind / "rows/train.parquet", scorer(kind)))


@cache
def profile(kind: str) -> pa.Table:
    """What drift is measured against: the very same rows."""
    pq.write_table(scored(kind), "profile.parquet")
    return drift_profile.of_scored(Path("profile.parquet"), Path("seeds") / kind / "model", "said_")


@cache
def _service(kind: str) -> Any:
    return http.client(Version("it", 1, {}), predictor(kind))


def ask(kind: str, body: bytes) -> None:
    """Send a request. Raises InputError for one that is refused, AssertionError for any answer that is no sentence."""
    response = _service(kind).post("/predict", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code in (200, 422, 400), response.text[:300]
    if response.status_code != 200:
        raise InputError(response.json()["detail"])
