"""int8 models as ONNX: the same integers, as small, and near to what torch computes, whatever the CPU can."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from pipelines.checkpoints import formats
from pipelines.core import cpu
from pipelines.export import onnx_export
from pipelines.inference import onnx_precise, runtimes
from pipelines.inference.predictor import Predictor
from tests.support import kinds, tiny
from tests.support.off_by import ALL, ONE, Off
from tests.support.quantizing import quantized, teacher

pytestmark = pytest.mark.slow
OPERATORS = {
    "dynamic_int8": {"QuantizeLinear", "MatMulInteger"},
    "static_int8": {"QuantizeLinear", "DequantizeLinear"},
    "q8bert": {"QuantizeLinear", "DequantizeLinear"},
}
NEAR = 0.01
SHAPED = {"bert": {"hidden_size": 128, "intermediate_size": 512}, "albert": {}, "modernbert": {}}
# of the layers of q8bert, which are static_int8's with one scale a matrix, a family shows all
CASES = [
    pytest.param(method, family, marks=[pytest.mark.soak] if method == "q8bert" and family != "bert" else [])
    for method in OPERATORS
    for family in SHAPED
]


@pytest.mark.parametrize(("method", "family"), CASES)
def test_int8_layers_are_exported_with_their_integers(
    method: str, family: str, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In albert two layers share a weight. The way for CPUs that saturate is right on all; the plain way is not."""
    monkeypatch.setitem(tiny.SMALL, family, tiny.SMALL[family] | SHAPED[family])
    out = quantized(method, teacher("single", family, checkout))
    (checkout / "onnx").mkdir()
    assert onnx_export.export(out, checkout / "onnx", 18) < onnx_export.ROUNDED
    graph = onnx.load(checkout / "onnx" / runtimes.ONNX_FILE).graph
    assert {node.op_type for node in graph.node} >= OPERATORS[method]
    matrices = [tensor for tensor in graph.initializer if len(tensor.dims) == 2 and min(tensor.dims) > 3]
    assert len(matrices) > 8
    assert {tensor.data_type for tensor in matrices} == {onnx.TensorProto.INT8}
    native = runtimes.Torch(out)
    for saturating in {cpu.saturates(), True}:
        monkeypatch.setattr(cpu, "saturates", lambda: saturating)  # noqa: B023
        assert onnx_export.parity(native, runtimes.Onnx(checkout / "onnx")) < NEAR
    rows = kinds.rows("single")
    answers, exported = (Predictor.load(place).predict(rows) for place in (out, checkout / "onnx"))
    ours, theirs = (np.array(answers_of.column("scores").to_pylist()) for answers_of in (answers, exported))
    assert ours == pytest.approx(theirs, abs=0.05)
    assert answers.num_rows == 24
    check_that_a_row_may_be_off_but_not_most(native, checkout / "onnx")
    if family == "bert":
        check_that_it_is_less_than_a_third_as_large(checkout)
    if method == "static_int8":
        check_that_weights_become_unsigned_where_products_saturate(checkout / "onnx")


def check_that_a_row_may_be_off_but_not_most(native: runtimes.Torch, out: Path) -> None:
    assert onnx_export.parity(native, Off(out, 0.5, ONE)) < NEAR
    assert onnx_export.parity(native, Off(out, 0.5, ALL)) == pytest.approx(0.5, abs=0.05)


def check_that_it_is_less_than_a_third_as_large(place: Path) -> None:
    """Than the weights in floats alone: their export has a graph besides."""
    size = sum(file.stat().st_size for file in (place / "onnx").glob("model.onnx*"))
    assert size <= formats.weights(place / "teacher").stat().st_size / 3


def check_that_weights_become_unsigned_where_products_saturate(out: Path) -> None:
    """The numbers stay, each 128 higher, and every layer is told so."""
    path = out / runtimes.ONNX_FILE
    before, after = onnx.load(path).graph, onnx.load_from_string(onnx_precise.model(path)).graph
    old, new = (
        {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer} for graph in (before, after)
    )
    nodes = [node for node in after.node if node.op_type == "DequantizeLinear" and node.input[0] in new]
    assert len(nodes) > 5
    for node in nodes:
        weight, zero = (new[node.input[i]] for i in (0, 2))
        assert weight.dtype == zero.dtype == np.uint8
        assert (weight.astype(int) - zero).tolist() == old[node.input[0]].tolist()


def test_weights_change_only_where_inputs_have_eight_bits(tmp_path: Path) -> None:
    """A layer as exports had it once, whose inputs have 8 bits, and one whose inputs have 7."""
    rng = np.random.default_rng(0)
    tensors = {
        "weight": rng.integers(-127, 128, (32, 4), np.int8),
        "other": rng.integers(-127, 128, (32, 4), np.int8),
        "one": np.float32(1),
        "middle": np.uint8(64),
    }
    nodes = [
        onnx.helper.make_node("DynamicQuantizeLinear", ["x"], ["numbers", "step", "zero"]),
        onnx.helper.make_node("MatMulInteger", ["numbers", "weight", "zero"], ["eight"]),
        onnx.helper.make_node("QuantizeLinear", ["x", "one", "middle"], ["few"]),
        onnx.helper.make_node("MatMulInteger", ["few", "other", "middle"], ["seven"]),
    ]
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["rows", 32])
    sums = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT32, None) for name in ("eight", "seven")]
    initial = [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in tensors.items()]
    graph = onnx.helper.make_graph(nodes, "layers", [x], sums, initial)
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10),
        tmp_path / "model.onnx",
    )
    precise = onnx_precise.model(tmp_path / "model.onnx")
    types = {tensor.name: tensor.data_type for tensor in onnx.load_from_string(precise).graph.initializer}
    assert (types["weight"], types["other"]) == (onnx.TensorProto.UINT8, onnx.TensorProto.INT8)
    few = rng.integers(-63, 64, (5, 32)).astype(np.float32)
    eight, seven = onnxruntime.InferenceSession(precise).run(None, {"x": few})
    assert seven.tolist() == (few.astype(int) @ tensors["other"].astype(int)).tolist()
    low, high = few.min(), few.max()
    step = (high - low) / np.float32(255)
    numbers = np.rint(few / step) + np.rint(-low / step) - np.rint(-low / step)
    assert eight == pytest.approx(numbers @ tensors["weight"].astype(int), abs=400), "halves may round either way"
