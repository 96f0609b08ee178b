"""int8 weights, and inputs in 256 steps: against NumPy, and in the integers that a kernel would sum."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from pipelines.models.quantization import int8, qdq


def test_each_word_has_its_own_scale() -> None:
    table = nn.Embedding(3, 2)
    with torch.no_grad():
        table.weight.copy_(torch.tensor([[1.27, -0.5], [127.0, 3.4], [0.0, 0.0]]))
    rounded = int8.Int8Embedding.of(table)
    assert rounded.weight.dtype == torch.int8
    assert rounded.weight.tolist() == [[127, -50], [127, 3], [0, 0]]
    assert rounded.scale[:2].numpy() == pytest.approx([0.01, 1.0])
    assert rounded(torch.tensor([[1], [0]])).flatten().numpy() == pytest.approx([127.0, 3.0, 1.27, -0.5])


@pytest.mark.parametrize("bias", [True, False])
def test_a_dynamic_layer_is_near_the_layer_it_was_made_of(bias: bool) -> None:
    torch.manual_seed(0)
    linear, x = nn.Linear(32, 8, bias=bias), torch.randn(5, 32)
    rounded = int8.Int8Linear.of(linear)
    assert rounded(x).detach().numpy() == pytest.approx(linear(x).detach().numpy(), abs=0.06)
    assert ("bias" in rounded.state_dict()) == bias


def test_a_dynamic_layer_rounds_each_token_by_its_own_range() -> None:
    torch.manual_seed(0)
    linear, x = nn.Linear(16, 5), torch.randn(2, 3, 16) * torch.tensor([0.1, 1.0, 50.0])[:, None]
    x[0, 1] = 0
    layer = int8.Int8Linear.of(linear)
    low, high = x.numpy().min(axis=-1, keepdims=True), x.numpy().max(axis=-1, keepdims=True)
    step = np.maximum(high - low, 1e-8) / np.float32(127)
    near = np.rint((x.numpy() - low) / step) * step.astype(np.float64) + low
    expected = near @ (layer.weight.numpy() * layer.scale.numpy()[:, None]).T + linear.bias.detach().numpy()
    assert layer(x).numpy() == pytest.approx(expected, rel=1e-5, abs=1e-5)
    alone = torch.stack([torch.stack([layer(token[None])[0] for token in row]) for row in x])
    assert torch.equal(layer(x), alone), "no bit depends on the other tokens"


def test_products_of_a_dynamic_layer_do_not_saturate() -> None:
    """The largest weights and inputs: two products of 8 bits would not fit into 16 bits."""
    linear, x = nn.Linear(64, 2, bias=False), torch.ones(1, 64)
    x[0, 0] = 0
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[1.0], [-1.0]]).expand(2, 64))
    assert int8.Int8Linear.of(linear)(x).tolist() == [[pytest.approx(63.0), pytest.approx(-63.0)]]


@given(st.floats(-100, 100), st.floats(-100, 100))
def test_a_range_holds_its_ends_and_zero_exactly(first: float, second: float) -> None:
    low, high = min(first, second), max(first, second)
    step, zero = qdq.affine(low, high)
    x = torch.tensor([low, 0.0, high])
    steps = qdq.steps(x, step, zero)
    assert steps[1] == 0
    assert (steps - x).abs().max() <= 0.5 * step[0] + 1e-4, "half a step, where the zero was rounded"
    assert 0 <= int(zero[0]) <= 255


def test_steps_are_those_of_onnx() -> None:
    """QuantizeLinear: saturate(round(x / scale) + zero), halves to the even."""
    x = np.array([-3.0, -1.0, -0.25, 0.0, 0.25, 0.75, 7.0, 300.0], np.float32)
    numbers = np.clip(np.rint(x / np.float32(0.5)) + 4, 0, 255)
    steps = qdq.steps(torch.from_numpy(x), torch.tensor([0.5]), torch.tensor([4], dtype=torch.uint8))
    assert steps.tolist() == ((numbers - 4) * 0.5).tolist()
    assert steps.tolist()[:3] == [-2.0, -1.0, 0.0]


def test_a_layer_gives_what_sums_of_integers_give() -> None:
    torch.manual_seed(0)
    linear, x = nn.Linear(16, 5), torch.randn(7, 16) * 2
    step, zero = qdq.affine(-3.0, 5.0)
    layer = qdq.QdqLinear.of(linear, int8.scales(linear.weight.detach()), step, zero)
    inputs = np.clip(np.rint(x.numpy() / step.numpy()) + zero.numpy(), 0, 255).astype(np.int32) - zero.numpy()
    sums = inputs.astype(np.int32) @ layer.weight.numpy().astype(np.int32).T
    expected = sums * (step.numpy() * layer.scale.numpy()) + linear.bias.detach().numpy()
    assert layer(x).numpy() == pytest.approx(expected, abs=1e-5)


def test_a_symmetric_range_has_its_zero_in_the_middle() -> None:
    step, zero = qdq.symmetric(torch.tensor(1.27))
    assert (float(step), int(zero)) == (pytest.approx(0.01), 128)
    x = torch.tensor([-9.0, -1.27, 0.004, 1.27, 9.0])
    assert qdq.steps(x, step, zero).numpy() == pytest.approx([-1.28, -1.27, 0.0, 1.27, 1.27])
