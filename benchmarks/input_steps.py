"""Six ways to round the inputs of int8 layers: by the range of a token or of the batch, in 7 bits or in 8.

    python benchmarks/input_steps.py ../quickstart headlines entailment --json benchmarks/results/input_steps.json

FOLDER is a checkout that made these runs. Weights are int8 each time. The layers compute in floats, so no product
saturates, and only the rounding differs. 7 bits are what CPUs without VNNI can add without saturation.
"""

from collections.abc import Callable
from pathlib import Path

import harness
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import nn

from pipelines.core import paths
from pipelines.inference.predictor import Predictor
from pipelines.models.quantization import int8

Rounding = Callable[[torch.Tensor], torch.Tensor]


def symmetric(steps: int) -> Rounding:
    """Each token in `steps` on either side of 0."""

    def rounded(x: torch.Tensor) -> torch.Tensor:
        step = x.abs().amax(dim=-1, keepdim=True).clamp(min=int8.LEAST) / steps
        return torch.round(x / step) * step

    return rounded


def between(steps: int) -> Rounding:
    """Each token in `steps` from its least to its greatest number."""

    def rounded(x: torch.Tensor) -> torch.Tensor:
        low = x.amin(dim=-1, keepdim=True)
        step = (x.amax(dim=-1, keepdim=True) - low).clamp(min=int8.LEAST) / steps
        return torch.round((x - low) / step) * step + low

    return rounded


def of_batch(x: torch.Tensor) -> torch.Tensor:
    """All tokens in 255 steps from the least to the greatest number of the batch (DynamicQuantizeLinear)."""
    low = x.amin().clamp(max=0)
    step = (x.amax().clamp(min=0) - low).clamp(min=int8.LEAST) / 255
    return torch.round((x - low) / step) * step + low


ROUNDINGS: dict[str, Rounding] = {
    "not rounded": lambda x: x,
    "token, symmetric, 7 bits": symmetric(63),
    "token, 7 bits": between(127),
    "token, symmetric, 8 bits": symmetric(127),
    "token, 8 bits": between(255),
    "batch, 8 bits": of_batch,
}


class Rounded(nn.Module):
    """An int8 layer that computes in floats, with its inputs rounded."""

    def __init__(self, layer: int8.Int8Linear, rounding: Rounding) -> None:
        super().__init__()
        self.layer, self.rounding = layer, rounding

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.layer.weight.float() * self.layer.scale[:, None]
        return nn.functional.linear(self.rounding(x), weight, self.layer.bias)


def main() -> None:
    options = harness.of_checkout(__doc__ or "")
    claims = []
    for run in options.runs:
        folder = options.folder / paths.model(run)
        rows = pq.read_table(options.folder / paths.rows(run) / "test.parquet")
        before = Predictor.load(folder, "torch").predict(rows)
        for name, rounding in ROUNDINGS.items():
            claims += differences(f"{run}, {name}", before, predictions(folder, rows, rounding))
    harness.report(claims, ("torch",), options.json)


def predictions(folder: Path, rows: pa.Table, rounding: Rounding) -> pa.Table:
    predictor = Predictor.load(folder, "torch", accelerate=False)
    model = int8.quantize(predictor.runtime.model)
    layers = {name: part for name, part in model.named_modules() if isinstance(part, int8.Int8Linear)}
    for name, layer in layers.items():
        model.set_submodule(name, Rounded(layer, rounding))
    return predictor.predict(rows)


def differences(name: str, before: pa.Table, after: pa.Table) -> list[harness.Claim]:
    """The share of labels that stay, and the largest change of a probability of a row, on average."""
    same = np.mean([a == b for a, b in zip(before["label"].to_pylist(), after["label"].to_pylist(), strict=True)])
    scores = (np.array(table["scores"].to_pylist()) for table in (before, after))
    changes = np.abs(np.subtract(*scores)).max(axis=1)
    spread = (round(float(changes.min()), 5), round(float(changes.max()), 5))
    return [
        harness.Claim(f"{name}: labels that stay", None, round(float(same), 4), (0, 1), True),
        harness.Claim(f"{name}: change of a probability", None, round(float(changes.mean()), 5), spread, True),
    ]


if __name__ == "__main__":
    main()
