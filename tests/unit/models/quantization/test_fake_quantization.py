"""Fake quantization: what Zafrir et al. 2019 define, worked by hand and in NumPy."""

import numpy as np
import pytest
import torch
from torch import nn

from pipelines.models.quantization import fake_quantization


def by_hand(x: np.ndarray, extent: float) -> np.ndarray:
    """Quantize(x | S, M) / S with S = M / extent and M = 127."""
    scale = 127 / extent
    return np.clip(np.round(x * scale), -127, 127) / scale


def test_numbers_go_to_the_nearest_of_255_steps_and_stop_at_the_range() -> None:
    x = torch.tensor([-2.0, -1.27, -0.304, 0.0, 0.004, 0.006, 0.996, 1.4])
    rounded = fake_quantization.symmetric(x, torch.tensor(1.27))
    assert rounded.numpy() == pytest.approx([-1.27, -1.27, -0.30, 0.0, 0.0, 0.01, 1.0, 1.27], abs=1e-6)
    assert rounded.numpy() == pytest.approx(by_hand(x.numpy(), 1.27), abs=1e-6)
    assert fake_quantization.symmetric(torch.zeros(3), torch.tensor(0.0)).eq(0).all()


def test_a_weight_s_range_is_its_largest_magnitude() -> None:
    weight = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    rounded = fake_quantization.ByLargest().rounded(torch.from_numpy(weight)).numpy()
    assert rounded == pytest.approx(by_hand(weight, np.abs(weight).max()), abs=1e-6)
    assert 3 < len(np.unique(rounded)) <= 255


def test_the_range_of_inputs_is_an_average_of_the_steps_magnitudes() -> None:
    ema = fake_quantization.Ema(0.9).train()
    ema(torch.tensor([1.0, -4.0]))
    assert ema.now() == 4.0, "the first step, as it is"
    ema.end_step()
    ema(torch.tensor([2.0]))
    ema(torch.tensor([-3.0, 1.0]))  # another part of the same step
    assert float(ema.now()) == pytest.approx(0.9 * 4 + 0.1 * 3)
    ema.end_step()
    ema(torch.tensor([8.0]))
    ema.end_step()
    assert float(ema.now()) == pytest.approx(0.9 * (0.9 * 4 + 0.1 * 3) + 0.1 * 8)
    assert ema.seen == 0
    ema.end_step()  # without a step in between
    assert float(ema.extent) == pytest.approx(0.9 * (0.9 * 4 + 0.1 * 3) + 0.1 * 8)


def test_a_step_s_inputs_are_rounded_by_the_range_with_this_step_in_it() -> None:
    ema = fake_quantization.Ema(0.5).train()
    ema(torch.tensor([2.0]))
    ema.end_step()
    x = torch.tensor([4.0, 1.111, -9.0])
    assert ema(x).numpy() == pytest.approx(by_hand(x.numpy(), 0.5 * 2 + 0.5 * 9), abs=1e-5)


def test_what_is_evaluated_is_not_counted() -> None:
    ema = fake_quantization.Ema(0.9).train()
    ema(torch.tensor([2.0]))
    ema.eval()(torch.tensor([50.0]))
    assert ema.now() == 2.0


def test_padding_does_not_count() -> None:
    layer = fake_quantization.FakeLinear(nn.Linear(2, 2), fake_quantization.ByLargest(), decay=0.9).train()
    assert layer.inputs is not None
    fake_quantization.only_at(fake_quantization.ranges(layer), torch.tensor([[True, False], [True, True]]))
    layer(torch.tensor([[[1.0, -2.0], [50.0, 50.0]], [[0.0, 1.0], [0.5, 0.0]]]))
    assert layer.inputs.now() == 2.0
    layer(torch.tensor([[3.0, 0.0], [0.0, -4.0]]))  # of rows, which have no padding: of as many numbers, too
    assert layer.inputs.now() == 4.0


def test_gradients_pass_as_if_nothing_were_rounded_or_clamped() -> None:
    x = torch.tensor([-2.0, -0.304, 0.0, 0.006, 1.4], requires_grad=True)
    slopes = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    rounded = fake_quantization.straight_through(x, fake_quantization.symmetric(x.detach(), torch.tensor(1.27)))
    (rounded * slopes).sum().backward()
    assert x.grad is not None
    assert x.grad.equal(slopes)


def test_a_layer_computes_and_learns_with_rounded_numbers() -> None:
    torch.manual_seed(0)
    linear, x = nn.Linear(6, 4), torch.randn(3, 6)
    weight, bias = (parameter.detach().numpy().copy() for parameter in (linear.weight, linear.bias))
    fake = fake_quantization.FakeLinear(linear, fake_quantization.ByLargest(), decay=0.9).train()
    near = by_hand(x.numpy(), float(x.abs().max()))
    out = fake(x)
    assert out.detach().numpy() == pytest.approx(near @ by_hand(weight, np.abs(weight).max()).T + bias, abs=1e-5)
    out.sum().backward()
    assert fake.weight.grad is not None
    assert fake.weight.grad.numpy() == pytest.approx(np.tile(near.sum(axis=0), (4, 1)), abs=1e-5)
    assert set(fake.state_dict()) == {"weight", "bias", "inputs.extent", "inputs.seen"}


def test_an_embedding_looks_up_rounded_words() -> None:
    table = nn.Embedding(9, 4)
    weight = table.weight.detach().numpy().copy()
    fake = fake_quantization.FakeEmbedding(table, fake_quantization.ByLargest())
    out = fake(torch.tensor([[1, 5]]))
    assert out[0].detach().numpy() == pytest.approx(by_hand(weight, np.abs(weight).max())[[1, 5]], abs=1e-6)
    out.sum().backward()
    assert fake.weight.grad is not None
    assert fake.weight.grad.sum(dim=1).tolist() == [0, 4, 0, 0, 0, 4, 0, 0, 0]
