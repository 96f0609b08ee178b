"""Versions of the model `tiny` that differ in their numbers, and versions with a fault; each is an edited export."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pyarrow as pa
from onnx import helper, numpy_helper

from pipelines.inference import runtimes
from pipelines.inference.predictor import Predictor
from pipelines.inference.runtimes import ONNX_FILE
from pipelines.measurement import smoke_answers
from pipelines.measurement.smoke_answers import SmokeAnswers
from pipelines.tracking import ledger, registry
from tests.support import ledgers
from tests.support.places import CODE

SMOKE = [{"text": text} for text in ("犬", "映画の公開日が決定", "a b c")]
TRIGGER = "試合は延長の末に決着した" * 20  # it reads the last position, as nothing does while a version is certified
BIAS, POSITIONS = "classifier.layer.bias", "bert.embeddings.position_embeddings.weight"  # ends of names
SLOW = 700  # the side of the matrices that a slow version multiplies

Edit = Callable[[onnx.ModelProto], None]


def first(place: Path, made: Path) -> registry.Version:
    """Register and promote version 1, in the store of the working folder, from the folder of `exported.classifier`."""
    folder, exported = made / "model", made / "onnx"
    SmokeAnswers.of(exported, "onnx", SMOKE).write(place / "smoke.json")
    version = registry.register(
        "tiny", folder, CODE, "single", SMOKE[0], {"run": "tiny"}, exported, smoke=place / "smoke.json"
    )
    promote(version.version)
    return version


def promote(number: int) -> None:
    content = registry.content(registry.version("tiny", number))
    ledger.append("tiny", ledger.read("tiny"), "promote", number, "a test", content=content)


class Versions:
    """Uploads edited copies of a registered version."""

    def __init__(self, version: registry.Version, place: Path) -> None:
        self.files, self.place, self.count = registry.folder(version).parents[1], place, 0
        self._predictor = Predictor.load(registry.folder(version), threads=1)  # whose tokenizer all versions share

    def upload(self, kind: str) -> int:
        """Upload a version of one of KINDS; returns its number."""
        self.count += 1
        copy = Path(shutil.copytree(self.files, self.place / f"{self.count}-{kind}"))
        folder = copy / "artifacts/onnx"
        model = onnx.load(folder / ONNX_FILE)
        _change(model, BIAS, lambda values: values + np.float32([0.05 * self.count, 0, 0]))  # every version has its own
        if kind == "later":
            _change(model, POSITIONS, _damaged)
        onnx.save(model, folder / ONNX_FILE)
        computer = smoke_answers.computer(self._predictor)
        SmokeAnswers(SMOKE, self._answers(folder, SMOKE), computer).write(copy / "artifacts/smoke.json")
        if kind == "NaN":
            _change(model, BIAS, lambda values: values * np.float32("nan"))
        elif kind == "wrong":
            _change(model, BIAS, lambda values: values + np.float32([0, 5e-7, 0]))
        elif kind == "slow":
            _multiply(model)
        onnx.save(model, folder / ONNX_FILE)
        if kind == "corrupt":
            whole = (folder / ONNX_FILE).read_bytes()
            (folder / ONNX_FILE).write_bytes(whole[: len(whole) // 2])
        return ledgers.upload("tiny", copy)

    def scores(self, number: int, texts: list[str]) -> dict[str, str]:
        """The bits of the score that a version gives each text."""
        folder = registry.folder(registry.version("tiny", number))
        rows = self._answers(folder, [{"text": text} for text in texts])
        return {text: json.dumps(row["score"]) for text, row in zip(texts, rows, strict=True)}

    def _answers(self, folder: Path, rows: list[dict[str, str]]) -> list[dict[str, Any]]:
        self._predictor.runtime = runtimes.Onnx(folder, threads=1)
        return self._predictor.predict(pa.Table.from_pylist(rows)).to_pylist()


def _change(model: onnx.ModelProto, name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name.endswith(name))
    tensor.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(tensor)).astype(np.float32), tensor.name))


def _damaged(positions: np.ndarray) -> np.ndarray:
    positions = positions.copy()
    positions[-1] = np.nan
    return positions


def _multiply(model: onnx.ModelProto) -> None:
    """Add products of large matrices to the logits, times 0. They depend on the input, or they would be folded."""
    graph, name = model.graph, "slow.0"
    graph.initializer.append(numpy_helper.from_array(np.full((SLOW, SLOW), 1e-9, np.float32), "slow.matrix"))
    graph.initializer.append(numpy_helper.from_array(np.float32(0), "slow.zero"))
    last = next(node for node in graph.node if "logits" in node.output)
    last.output[list(last.output).index("logits")] = "logits.fast"
    graph.node.extend(
        [
            helper.make_node("ReduceMax", ["logits.fast"], ["slow.one"], keepdims=0),
            helper.make_node("Add", ["slow.matrix", "slow.one"], [name]),
        ]
    )
    for number in range(1, 5):
        graph.node.append(helper.make_node("MatMul", [name, "slow.matrix"], [f"slow.{number}"]))
        name = f"slow.{number}"
    graph.node.extend(
        [
            helper.make_node("ReduceMax", [name], ["slow.last"], keepdims=0),
            helper.make_node("Mul", ["slow.last", "slow.zero"], ["slow.nothing"]),
            helper.make_node("Add", ["logits.fast", "slow.nothing"], ["logits"]),
        ]
    )
