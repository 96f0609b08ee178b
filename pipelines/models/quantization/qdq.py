"""Linear layers with int8 weights whose inputs are rounded to 256 fixed steps, as ONNX's QuantizeLinear does.

The computation uses floats that represent the same numbers as the integers of an int8 kernel. So the model predicts the
same as its export, up to the order of sums; only the export has the speed of int8.
"""

import torch
from torch import nn

from pipelines.models.quantization import int8

TOP = 255  # the largest number of a uint8
MIDDLE = 128  # the zero point of a symmetric range


class QdqLinear(nn.Module):
    """A linear layer (.., K) to (.., N) with an int8 weight and inputs rounded to fixed steps.

    Attributes:
        weight: (N, K) int8.
        scale: scale of each row of the weight, (N,), or of the whole weight, (1,).
        input_scale: step size of the inputs, (1,).
        input_zero: the zero point of the inputs, uint8 (1,).
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
        """Round the weight of `linear` by `scale`; `step` and `zero` are the step and zero point of its inputs."""
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
    """`x` rounded to the nearest of 256 steps: ONNX's QuantizeLinear followed by DequantizeLinear."""
    middle = zero.float()
    return (torch.round(x / step).add_(middle).clamp_(0, TOP) - middle) * step


def affine(low: float, high: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The step and zero point of 256 steps from `low` to `high`, which include 0 (Jacob et al. 2018, section 2.1)."""
    low, high = min(low, 0.0), max(high, 0.0)
    step = max((high - low) / TOP, 1e-8)
    return torch.tensor([step]), torch.tensor([min(TOP, round(-low / step))], dtype=torch.uint8)


def symmetric(extent: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The step and the zero point of 255 steps from -extent to extent; `extent` is one number."""
    middle = torch.tensor([MIDDLE], dtype=torch.uint8, device=extent.device)
    return extent.reshape(1).clamp(min=1e-8) / int8.MOST, middle
