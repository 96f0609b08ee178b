"""Ranges of the inputs of linear layers, measured on training rows: minimum and maximum, or percentiles.

Wu et al. 2020, *Integer Quantization for Deep Learning Inference*, section 3.3: a percentile leaves out the rare large
values, so that the 256 steps are finer for all others.
"""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import nn

from pipelines.compression.context import Context
from pipelines.core.ragged import Ragged, by_length, model_inputs
from pipelines.models import heads
from pipelines.models.quantization import matrices
from pipelines.training.batches import Encoded

BATCH_TOKENS = 4096
BINS = 4096  # bins of the histogram from which percentiles are computed

Range = tuple[float, float]
See = Callable[[str, torch.Tensor], None]  # (name of a linear layer, its inputs at tokens (N, K))


def ranges(context: Context, model: nn.Module, rows: int, percentile: float) -> dict[str, Range]:
    """The range of the inputs of each linear layer of `model`, by name, on `rows` training rows.

    Args:
        percentile: percentage of a layer's values that lie within its range; the others are cut off equally at both
            ends. 100 cuts off none.
    """
    data = context.data.train.sample(rows, context.seed)
    limits = least_and_greatest(context, model, data)
    if percentile == 100:
        return limits
    counts = {name: np.zeros(BINS, np.int64) for name in limits}

    def count(name: str, x: torch.Tensor) -> None:
        counts[name] += torch.histc(x.float(), BINS, *limits[name]).to(torch.int64).cpu().numpy()

    watch(context, model, data, count)
    return {name: within(counts[name], limits[name], percentile) for name in limits}


def least_and_greatest(context: Context, model: nn.Module, data: Encoded) -> dict[str, Range]:
    """The minimum and maximum input of each linear layer that the rows reach."""
    limits: dict[str, Range] = {}

    def widen(name: str, x: torch.Tensor) -> None:
        low, high = (float(value) for value in torch.aminmax(x))
        before = limits.get(name, (low, high))
        limits[name] = min(low, before[0]), max(high, before[1])

    watch(context, model, data, widen)
    return limits


def within(counts: np.ndarray, span: Range, percentile: float) -> Range:
    """The part of `span` that holds `percentile` percent of the values counted in bins (B,), to the width of a bin."""
    left_out = counts.sum() * (100 - percentile) / 200  # at either end
    below, above = np.cumsum(counts), np.cumsum(counts[::-1])
    width = (span[1] - span[0]) / len(counts)
    first, last = np.searchsorted(below, left_out, "right"), np.searchsorted(above, left_out, "right")
    return span[0] + float(first) * width, span[1] - float(last) * width


def watch(context: Context, model: nn.Module, data: Encoded, see: See) -> None:
    """Run the rows through `model` and pass the inputs of each linear layer, without padding, to `see`."""
    inside = torch.zeros(0)

    def hook(name: str) -> Callable[[nn.Module, tuple[torch.Tensor, ...]], None]:
        def shown(_: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
            x = inputs[0].detach()
            see(name, x[inside] if x.shape[:-1] == inside.shape else x.flatten(0, -2))

        return shown

    hooks = [part.register_forward_pre_hook(hook(name)) for name, part in matrices.linears(model).items()]
    device = next(model.parameters()).device
    try:
        with torch.inference_mode():
            for batch in _batches(data, context.data.pad_id):
                inside = batch["attention_mask"].to(device).bool()
                heads.outputs(model, context.task.kind, {name: tensor.to(device) for name, tensor in batch.items()})
    finally:
        for handle in hooks:
            handle.remove()


def _batches(data: Encoded, pad_id: int) -> Iterator[dict[str, torch.Tensor]]:
    """All sequences in batches (B, T)."""
    ids = Ragged(data.ids, data.offsets)
    for chosen in by_length(ids.lengths, BATCH_TOKENS):
        inputs = model_inputs(ids, chosen, data.first_length, pad_id, data.longest)
        yield {name: torch.from_numpy(array) for name, array in inputs.items()}
