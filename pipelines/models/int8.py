"""Linear layers with int8 weights and dynamic int8 activations, kept in safetensors and never pickled.

Weights are symmetric per output channel, w = q * scale with q in [-127, 127]; activations are quantized at
run time by torch's own kernel (Zafrir et al. 2019, section 3, call it dynamic quantization).
"""

import json
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn
from transformers import AutoConfig, PreTrainedModel

from pipelines.models import opening

MARK = "bertline_int8"  # in config.json: the names of the layers kept as int8


class Int8Linear(nn.Module):
    """A linear layer (.., K) to (.., N) whose (N, K) weight is int8 with one scale a row."""

    weight: torch.Tensor
    scale: torch.Tensor
    bias: torch.Tensor

    def __init__(self, weight: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", bias)
        self._packed: Any = None

    @classmethod
    def of(cls, linear: nn.Linear) -> "Int8Linear":
        """Round `linear`'s weight to int8."""
        weight = linear.weight.detach().float()
        scale = weight.abs().amax(dim=1).clamp(min=1e-8) / 127
        rounded = torch.round(weight / scale[:, None]).clamp(-127, 127).to(torch.int8)
        bias = torch.zeros(len(weight)) if linear.bias is None else linear.bias.detach().float().clone()
        return cls(rounded, scale, bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self._packed is None:
            self._packed = self._pack()
        # reduce_range keeps sums of products inside int16 on CPUs without VNNI
        return torch.ops.quantized.linear_dynamic(x, self._packed, reduce_range=True)

    def _pack(self) -> Any:
        """The weight as torch's int8 kernel reads it."""
        points = torch.zeros(len(self.scale), dtype=torch.int64)
        with warnings.catch_warnings():
            # torch 2.13 deprecates quantized tensors, and has no other way into this kernel
            warnings.filterwarnings("ignore", "torch.quantize_per_tensor", UserWarning)
            quantized = torch._make_per_channel_quantized_tensor(self.weight, self.scale.double(), points, 0)
        return torch.ops.quantized.linear_prepack(quantized, self.bias)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_packed": None}  # the packed form is the CPU's own


def quantize(model: PreTrainedModel) -> PreTrainedModel:
    """Replace every linear layer of `model` by its int8 form, in place."""
    for name, linear in [(n, m) for n, m in model.named_modules() if isinstance(m, nn.Linear)]:
        _replace(model, name, Int8Linear.of(linear))
    return model.eval()


def is_quantized(model: nn.Module) -> bool:
    return any(isinstance(m, Int8Linear) for m in model.modules())


def save(model: PreTrainedModel, folder: Path) -> None:
    """config.json with the mark, and model.safetensors with int8 weights and their scales."""
    names = [name for name, module in model.named_modules() if isinstance(module, Int8Linear)]
    model.config.save_pretrained(folder)
    path = folder / "config.json"
    settings = json.loads(path.read_text(encoding="utf-8")) | {MARK: names, "architectures": [type(model).__name__]}
    path.write_text(json.dumps(settings, ensure_ascii=False, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, folder / "model.safetensors")


def load(folder: Path, auto: Any) -> PreTrainedModel:
    """The model of transformers' class `auto` that `save` wrote, in eval mode."""
    config = AutoConfig.from_pretrained(folder)
    names = getattr(config, MARK)
    delattr(config, MARK)
    model = auto.from_config(config)
    tensors = opening.tensors(folder / "model.safetensors")
    for name in names:
        _replace(model, name, Int8Linear(*(tensors[f"{name}.{part}"] for part in ("weight", "scale", "bias"))))
    model.load_state_dict(tensors, assign=True)
    return model.eval()


def _replace(model: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, child = name.rpartition(".")
    setattr(model.get_submodule(parent), child, module)
