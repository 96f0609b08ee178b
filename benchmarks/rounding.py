"""How far int8 logits move by a float's noise, beside how far ONNX Runtime is from torch.

    python benchmarks/rounding.py ../compress q8bert dynamic-int8 --json benchmarks/results/rounding.json

FOLDER is a checkout that made these models and their exports. Torch answers random rows twice, and the second time the
states after the embeddings have relative noise of NOISE: as much as another order of sums gives. `onnx_export.parity`
rests on what comes out: single rows differ by chance, and say nothing about an export.
"""

from typing import Any

import harness
import numpy as np
import torch

from pipelines.core import paths, threads
from pipelines.export import onnx_export
from pipelines.inference import runtimes

ROWS, LENGTH, BATCH = 96, 24, 8
NOISE = 1e-6


def main() -> None:
    options = harness.of_checkout(__doc__ or "")
    threads.use(1)
    torch.manual_seed(1)
    claims = []
    for run in options.runs:
        native = runtimes.Torch(options.folder / paths.model(run))
        exported = runtimes.Onnx(options.folder / paths.onnx(run))
        differences = apart(native, exported)
        for name, values in differences.items():
            claims.append(claim(f"{run}_{name}_median_row", onnx_export.ROUNDED, np.median(values), values))
            above = (values > onnx_export.ROUNDED).mean()
            claims.append(claim(f"{run}_{name}_share_of_rows_above_0.1", None, above, values))
    harness.report(claims, ("torch", "onnxruntime"), options.json)


def apart(native: runtimes.Torch, exported: runtimes.Onnx) -> dict[str, np.ndarray]:
    """The largest difference of a logit from torch's, of each row: by ONNX Runtime, and by torch with noise."""
    differences: dict[str, list[np.ndarray]] = {"onnx": [], "noise": []}
    for number in range(ROWS // BATCH):
        batch = onnx_export.random_rows(native, BATCH, LENGTH, number)
        right = native.logits(batch)
        differences["onnx"].append(np.abs(exported.logits(batch) - right).max(axis=1))
        with Noise(native.model):
            differences["noise"].append(np.abs(native.logits(batch) - right).max(axis=1))
    return {name: np.concatenate(parts) for name, parts in differences.items()}


class Noise:
    """While it is open, what leaves the first layer normalization of `model` is multiplied by 1 + NOISE * N(0, 1)."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.first = next(part for part in model.modules() if isinstance(part, torch.nn.LayerNorm))

    def __enter__(self) -> None:
        self.hook = self.first.register_forward_hook(lambda _, __, out: out * (1 + NOISE * torch.randn_like(out)))

    def __exit__(self, *_: Any) -> None:
        self.hook.remove()


def claim(name: str, most: float | None, measured: float, rows: np.ndarray) -> harness.Claim:
    low, high = (round(float(share), 4) for share in (rows.min(), rows.max()))
    return harness.Claim(name, most, round(float(measured), 4), (low, high), most is None or bool(measured <= most))


if __name__ == "__main__":
    main()
