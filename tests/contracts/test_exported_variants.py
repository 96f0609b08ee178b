"""A compressed model of each format as ONNX: plain onnxruntime opens it, and says what the predictor says."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from pipelines.checkpoints import folder as model_folder
from pipelines.export import onnx_export
from pipelines.inference.predictor import Predictor
from pipelines.measurement import row_exactness
from tests.support import compressed, kinds

pytestmark = pytest.mark.slow
Made = tuple[str, str, dict[str, Any], float]  # method, family, params, by how much logits may be off
EXACT, ROUNDED = onnx_export.EXACT, onnx_export.ROUNDED
MADE: list[Made] = [
    ("dynamic_int8", "bert", {}, ROUNDED),
    ("q8bert", "bert", {}, ROUNDED),
    ("group_quant", "bert", {}, EXACT),  # its export has floats again
    ("drop_layers", "bert", {}, EXACT),
    ("prune_heads", "bert", {"share": 0.25}, EXACT),
    ("prune_heads", "modernbert", {}, EXACT),
    ("prune_ffn", "bert", {}, EXACT),
    ("prune_ffn", "modernbert", {}, EXACT),
    ("prune_magnitude", "modernbert", {}, EXACT),
    ("share_layers", "modernbert", {}, EXACT),
    ("factorize_embeddings", "bert", {}, EXACT),
    ("factorize_embeddings", "modernbert", {}, EXACT),
    ("prune_vocab", "bert", {}, EXACT),
    ("bilstm_student", "bert", {"epochs": 8, "learning_rate": 0.1}, EXACT),
]
AGAIN: list[Made] = [  # by transformers' own classes, which are exported above
    ("drop_layers", "modernbert", {}, EXACT),
    ("prune_magnitude", "bert", {}, EXACT),
    ("prune_vocab", "modernbert", {}, EXACT),
]


def test_every_method_that_claims_families_is_exported() -> None:
    assert {*compressed.claiming()} <= {name for name, *_ in MADE} | {"share_layers"}


@pytest.mark.parametrize(
    "variant",
    [*MADE, *(pytest.param(variant, marks=pytest.mark.soak) for variant in AGAIN)],
    ids=lambda variant: "-".join(variant[:2]),
)
def test_plain_onnxruntime_opens_it(variant: Made, checkout: Path) -> None:
    name, family, more, allowed = variant
    folder, out = compressed.teacher(family, "single", checkout / "teacher"), checkout / "onnx"
    compressed.compressed(name, folder, "single", checkout / "out", **more)
    out.mkdir()
    assert onnx_export.export(checkout / "out", out, 18) <= allowed
    check_that_plain_onnxruntime_answers(checkout / "out", out, allowed)
    assert row_exactness.largest_difference(Predictor.load(out)) == 0


def check_that_plain_onnxruntime_answers(native: Path, out: Path, allowed: float) -> None:
    """What it says of each row alone, and what the predictor says of the export, is what the model says."""
    session = onnxruntime.InferenceSession(out / "model.onnx", providers=["CPUExecutionProvider"])
    names = {graph_input.name for graph_input in session.get_inputs()}
    assert {"input_ids", "attention_mask"} <= names <= {*onnx_export.NAMES}
    predictor = Predictor.load(native)
    logits = []
    for ids in predictor.encode(kinds.rows("single")).column("input_ids").to_pylist():
        inputs = {"input_ids": ids, "attention_mask": [1] * len(ids), "token_type_ids": [0] * len(ids)}
        batch = {name: np.array([inputs[name]], np.int64) for name in names}
        logits.append(session.run(["logits"], batch)[0][0])
    expected = compressed.logits(predictor)
    assert expected.shape == (24, 3)
    assert np.array(logits) == pytest.approx(expected, abs=allowed)
    if allowed == EXACT:
        assert np.ptp(expected, axis=0).max() > 10 * allowed, "rows differ"
        compressed.check_answers(Predictor.load(out), predictor, "single", 1e-3)


@pytest.mark.parametrize("rounded", [False, True], ids=["floats", "int8"])
def test_shared_layers_are_exported_once(rounded: bool, checkout: Path) -> None:
    """Of its matrices the file has each once; those of a second layer would be as large again."""
    compressed.teacher("roberta", "single", checkout / "apart")
    compressed.compressed("share_layers", checkout / "apart", "single", checkout / "shared")
    folder, out = checkout / "shared", checkout / "onnx"
    if rounded:
        folder = checkout / "int8"
        compressed.compressed("dynamic_int8", checkout / "shared", "single", folder)
    out.mkdir()
    onnx_export.export(folder, out, 18)
    tensors = onnx.load(out / "model.onnx").graph.initializer
    weights = [tensor for tensor in tensors if len(tensor.dims) == 2 and tensor.data_type != onnx.TensorProto.INT64]
    whole, once = (matrices(checkout / name) for name in ("apart", "shared"))
    assert whole - once == 4 * 32 * 32 + 2 * 32 * 64, "of the teacher's second layer"
    assert sum(len(weight.raw_data) for weight in weights) == once * (1 if rounded else 4)


def matrices(folder: Path) -> int:
    """How many numbers the matrices of a model have, each matrix counted once."""
    return sum(
        parameter.numel() for parameter in model_folder.load_tuned(folder)[0].parameters() if parameter.dim() == 2
    )
