"""LSTMs are exported as often as one likes, for rows of any length, and say what torch says of each row."""

from pathlib import Path

import onnx
import pytest
import torch
from torch import nn

from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import new_head
from pipelines.export import onnx_export
from pipelines.inference.predictor import Predictor
from pipelines.inference.runtimes import PAIRS
from pipelines.measurement import row_exactness
from tests.support import tiny

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", ["single", "tagging"])  # in one process
@pytest.mark.parametrize(("family", "head", "depth", "layers"), [("bilstm", "linear", 2, 4), ("bert", "bilstm", 1, 2)])
def test_the_onnx_lstm_agrees_with_torch(
    family: str, head: str, depth: int, layers: int, kind: str, checkout: Path
) -> None:
    """`export` compares rows of several lengths, padded ones among them; here with weights that matter."""
    source, task = tiny.of_family(family, checkout / "encoder", layers=depth), tiny.of_kind(kind)
    torch.manual_seed(1)
    model = new_head.for_task(source, task, head).eval()
    for name, weight in model.named_parameters():
        if "lstm" in name or "classifier" in name:
            nn.init.normal_(weight, std=0.5)
    (checkout / "model").mkdir()
    model_folder.save(model, checkout / "model", source, task)
    (checkout / "onnx").mkdir()
    assert onnx_export.export(checkout / "model", checkout / "onnx", 18) < onnx_export.EXACT
    predictor = Predictor.load(checkout / "onnx")
    assert predictor.runtime.batching == PAIRS
    assert row_exactness.largest_difference(predictor) == 0
    nodes = onnx.load(checkout / "onnx" / "model.onnx").graph.node
    assert [node.op_type for node in nodes].count("LSTM") == layers, "each of one direction, or of both"
