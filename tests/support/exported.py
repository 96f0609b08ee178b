"""Tiny models and their exports, each made once in a run of the tests."""

from pathlib import Path
from typing import Any

import pytest

from pipelines.export import onnx_export
from tests.support import compressed, kinds, once, tiny

# kind -> arguments of `predict` for three rows, and the same rows as dicts
CONTEXT = "私は犬が好き。映画も好き。"
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "single": (["私は犬が好き。", "", "試合は延長の末に決着した"],),
    "pair": (["私は犬が好き。", "映画", "試合"], ["犬", "監督", ""]),
    "regression": (["私は犬が好き。", "映画", "試合"], ["犬", "監督", ""]),
    "span": (["何が好き", "犬", "映画"], CONTEXT),
    "tagging": (["私は犬が好き。", "映画", "試合は延長の末に決着した"],),
    "choice": (["私は犬が好き。", "映画", "試合"], [["犬", "映画", "試合"], ["a", "b", "c"], ["", "犬", "犬"]]),
}
ROWS: dict[str, list[dict[str, Any]]] = {
    "single": [{"text": text} for text in ARGUMENTS["single"][0]],
    "tagging": [{"text": text} for text in ARGUMENTS["tagging"][0]],
    "span": [{"question": question, "context": CONTEXT} for question in ARGUMENTS["span"][0]],
    "choice": [{"text": text, "choices": options} for text, options in zip(*ARGUMENTS["choice"], strict=True)],
    **{
        kind: [{"text": text, "text_pair": other} for text, other in zip(*ARGUMENTS[kind], strict=True)]
        for kind in ("pair", "regression")
    },
}


def classifier(places: pytest.TempPathFactory) -> Path:
    """A folder with `model`, which is `tiny.classifier`, and `onnx`, its export; no test writes into it."""
    return once.made(places, "classifier", _classifier)


def _classifier(folder: Path) -> None:
    tiny.classifier(folder / "model")
    (folder / "onnx").mkdir()
    onnx_export.export(folder / "model", folder / "onnx", 18, 1e-4)


def encoder(places: pytest.TempPathFactory) -> Path:
    """A folder with `model`, which is `tiny.encoder`, and `onnx`, its export; no test writes into it."""
    return once.made(places, "encoder", _encoder)


def _encoder(folder: Path) -> None:
    tiny.encoder(folder / "model")
    (folder / "onnx").mkdir()
    onnx_export.export(folder / "model", folder / "onnx", 18)


def of_teacher(
    places: pytest.TempPathFactory,
    family: str,
    kind: str = "single",
    head: str = "native",
    pooling: str | None = None,
    method: str = "",
) -> Path:
    """A folder with a `teacher`, and `onnx`, the export of it or of its compression; no test writes into it."""

    def make(folder: Path) -> None:
        model = compressed.teacher(family, kind, folder / "teacher", head=head, pooling=pooling)
        if method:
            compressed.compressed(method, model, kind, folder / method)
            model = folder / method
        (folder / "onnx").mkdir()
        onnx_export.export(model, folder / "onnx", 18)

    return once.made(places, "-".join(("teacher", family, kind, head, pooling or "", method)), make)


def models(places: pytest.TempPathFactory) -> Path:
    """A folder with KIND and KIND-onnx for every kind, `encoder` and `encoder-onnx`; no test writes into it."""
    ready, of_texts = classifier(places), encoder(places)
    return once.made(places, "models-of-kinds", lambda folder: _make(folder, ready, of_texts))


def _make(folder: Path, ready: Path, of_texts: Path) -> None:
    once.copied(of_texts / "model", folder / "encoder")
    once.copied(of_texts / "onnx", folder / "encoder-onnx")
    for kind in kinds.TASKS:
        model, onnx = folder / kind, folder / f"{kind}-onnx"
        if kind == "single":
            once.copied(ready / "model", model)
            once.copied(ready / "onnx", onnx)
            continue
        tiny.classifier(model, kind)
        onnx.mkdir()
        onnx_export.export(model, onnx, 18, 1e-3)
