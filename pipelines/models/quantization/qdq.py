"""Linear layers with int8 weights whose inputs are rounded to 256 fixed steps, as ONNX's QuantizeLinear does.

Computed in floats, which hold the same numbers: what an int8 kernel sums in integers, scaled. So the model predicts
here what its export says, up to the order of sums; the speed of int8 comes with the export.
"""

import torch
from torch import nn

from pipelines.models.quantization import int8

TOP = 255  # the largest number of a uint8
MIDDLE = 128  # the zero of a symmetric range, -1 to 1 say


class QdqLinear(nn.Module):
    """A linear layer (.., K) to (.., N).

    Attributes:
        weight: (N, K) int8.
        scale: of the weight's rows, (N,), or of all of it, (1,).
        input_scale: the width of a step of the inputs, (1,).
        input_zero: the number, uint8 (1,), that stands for the input 0.
    """

    weight: torch.Tensor
    scale: torch.Tensor
    input_scale: torch.Tensor
    input_zero: torch.Tensor
    bias: torch.Tensor | None

    def __init__(
        self,
        weight: torch.Tensor,
        scale: torch.Tensor,
        input_scale: torch.Tensor,
        input_zero: torch.Tensor,
        bias: torch.Tensor | None = None,
    ) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)
        self.register_buffer("input_scale", input_scale)
        self.register_buffer("input_zero", input_zero)
        self.register_buffer("bias", bias)
        self._float: torch.Tensor | None = None

    @classmethod
    def of(cls, linear: nn.Module, scale: torch.Tensor, step: torch.Tensor, zero: torch.Tensor) -> "QdqLinear":
        """Round the weight of `linear` by `scale`; `step` and `zero` are those of its inputs."""
        assert isinstance(linear.weight, torch.Tensor)
        bias = linear.bias.detach().float().clone() if isinstance(linear.bias, torch.Tensor) else None
        place = linear.weight.device
        return cls(int8.rounded(linear.weight.detach().float(), scale), scale, step.to(place), zero.to(place), bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self._float is None or self._float.device != x.device:
            self._float = self.weight.float() * self.scale[:, None]
        return nn.functional.linear(steps(x, self.input_scale, self.input_zero), self._float, self.bias)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_float": None}


def steps(x: torch.Tensor, step: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
    """`x` at the nearest of 256 steps: QuantizeLinear and DequantizeLinear of ONNX, one after the other."""
    middle = zero.float()
    return (torch.round(x / step).add_(middle).clamp_(0, TOP) - middle) * step


def affine(low: float, high: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The step and the zero of 256 steps from `low` to `high`, with 0 among them (Jacob et al. 2018, section 2.1)."""
    low, high = min(low, 0.0), max(high, 0.0)
    step = max((high - low) / TOP, 1e-8)
    return torch.tensor([step]), torch.tensor([min(TOP, round(-low / step))], dtype=torch.uint8)


def symmetric(extent: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The step and the zero of 255 steps from -extent to extent; `extent` is one number."""
    middle = torch.tensor([MIDDLE], dtype=torch.uint8, device=extent.device)
    return extent.reshape(1).clamp(min=1e-8) / int8.MOST, middle
