"""A compressed model of each format as ONNX: plain onnxruntime opens it, and says what the predictor says."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from pipelines.inference import onnx_export
from pipelines.inference.predictor import Predictor
from tests.support import compressed, kinds

pytestmark = pytest.mark.slow
MADE: dict[str, tuple[str, dict[str, Any], float]] = {  # method -> family, params, by how much logits may be off
    "dynamic_int8": ("bert", {}, onnx_export.ROUNDED),
    "q8bert": ("bert", {}, onnx_export.ROUNDED),
    "group_quant": ("bert", {}, onnx_export.EXACT),  # its export has floats again
    "drop_layers": ("bert", {}, onnx_export.EXACT),
    "prune_heads": ("bert", {"share": 0.25}, onnx_export.EXACT),
    "share_layers": ("roberta", {}, onnx_export.EXACT),
    "factorize_embeddings": ("modernbert", {}, onnx_export.EXACT),
    "bilstm_student": ("bert", {"epochs": 8, "learning_rate": 0.1}, onnx_export.EXACT),
}


@pytest.mark.parametrize("name", MADE)
def test_plain_onnxruntime_opens_it(name: str, checkout: Path) -> None:
    family, more, allowed = MADE[name]
    folder, out = compressed.teacher(family, "single", checkout / "teacher"), checkout / "onnx"
    compressed.compressed(name, folder, "single", checkout / "out", **more)
    out.mkdir()
    assert onnx_export.export(checkout / "out", out, 18) <= allowed
    session = onnxruntime.InferenceSession(out / "model.onnx", providers=["CPUExecutionProvider"])
    names = {given.name for given in session.get_inputs()}
    assert {"input_ids", "attention_mask"} <= names <= {*onnx_export.NAMES}
    predictor = Predictor.load(checkout / "out")
    found = []
    for ids in predictor.encode(kinds.rows("single")).column("input_ids").to_pylist():
        given = {"input_ids": ids, "attention_mask": [1] * len(ids), "token_type_ids": [0] * len(ids)}
        batch = {each: np.array([given[each]], np.int64) for each in names}
        found.append(session.run(["logits"], batch)[0][0])
    wanted = compressed.logits(predictor)
    assert wanted.shape == (24, 3)
    assert np.array(found) == pytest.approx(wanted, abs=allowed)
    if allowed == onnx_export.EXACT:
        assert np.ptp(wanted, axis=0).max() > 10 * allowed, "rows differ"


@pytest.mark.parametrize("rounded", [False, True], ids=["floats", "int8"])
def test_what_layers_share_is_exported_once(rounded: bool, checkout: Path) -> None:
    compressed.teacher("roberta", "single", checkout / "apart")
    compressed.compressed("share_layers", checkout / "apart", "single", checkout / "shared")
    sizes = {}
    for name in ("apart", "shared"):
        folder, out = checkout / name, checkout / f"{name}-onnx"
        if rounded:
            folder = checkout / f"{name}-int8"
            compressed.compressed("dynamic_int8", checkout / name, "single", folder)
        out.mkdir()
        onnx_export.export(folder, out, 18)
        tensors = onnx.load(out / "model.onnx").graph.initializer
        sizes[name] = sum(len(each.raw_data) for each in tensors if len(each.dims) == 2)
    layer = 4 * 32 * 32 + 2 * 32 * 64  # of the matrices; the teacher has two such layers
    assert sizes["apart"] - sizes["shared"] == layer * (1 if rounded else 4)
