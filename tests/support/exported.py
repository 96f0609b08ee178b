"""A tiny model of every kind, and its export."""

from pathlib import Path
from typing import Any

import pytest

from pipelines.export import onnx_export
from tests.support import kinds, once, tiny

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


def models(places: pytest.TempPathFactory) -> Path:
    """A folder with KIND and KIND-onnx for every kind, and `encoder`; no test writes into it."""
    return once.made(places, "models-of-kinds", _make)


def _make(folder: Path) -> None:
    tiny.encoder(folder / "encoder")
    for kind in kinds.TASKS:
        tiny.classifier(folder / kind, kind)
        (folder / f"{kind}-onnx").mkdir()
        onnx_export.export(folder / kind, folder / f"{kind}-onnx", 18, 1e-3)
