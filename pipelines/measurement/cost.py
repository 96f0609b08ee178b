"""The cost of a model: parameters, bytes, operations, and milliseconds on this machine.

Floating-point operations (FLOPs) are counted with these assumptions. A multiplication and an addition are two
operations (Clark et al. 2020, ELECTRA, appendix), whatever their precision: an int8 product counts as much as a
float product. Only the matrix products of linear layers, of attention with its T x T scores and of LSTMs count.
Embedding lookups, biases, norms, activations, softmax and dropout do not count, although they do in that paper. A
layer that is used twice counts twice. A zero in a matrix counts like any other number, as the model multiplies it. The
operations of one sequence of FLOPS_TOKENS tokens without padding are counted, and divided by FLOPS_TOKENS.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.core.errors import InputError, shown
from pipelines.evaluation.split import Split
from pipelines.inference.predictor import Predictor

SINGLE_ROWS = 50  # timed one at a time
PASSES = 3
FLOPS_TOKENS = 128  # the length of the counted sequence; less for a model with fewer positions


def size(folder: Path) -> dict[str, int]:
    """Parameters and bytes of the safetensors in `folder`.

    The number of parameters of a file with quantized weights is in its metadata: scales count as bytes but not as
    parameters, and several packed weights may share a byte.
    """
    from pipelines.checkpoints import loading
    from pipelines.checkpoints.quantized import PARAMETERS

    parameters = size_bytes = 0
    for path in folder.glob("*.safetensors"):
        size_bytes += path.stat().st_size
        header = loading.header(path)
        count = str(header.metadata.get(PARAMETERS, header.numbers))
        if not count.isdecimal():
            raise InputError(f"{path}: its metadata has {PARAMETERS} {shown(count)}; a whole number is expected")
        parameters += int(count)
    return {"parameters": parameters, "size_bytes": size_bytes}


def zeros(folder: Path) -> int:
    """The number of weights in `folder`'s safetensors that are exactly zero; for float weights only."""
    import torch
    from safetensors import safe_open

    count = 0
    for path in folder.glob("*.safetensors"):
        with safe_open(path, "pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118
                tensor = tensors.get_tensor(name)
                if tensor.is_floating_point():
                    tensor = tensor.float()  # count_nonzero does not support every float dtype
                count += tensor.numel() - int(torch.count_nonzero(tensor))
    return count


def flops_per_token(model: Any, kind: str) -> int:
    """FLOPs per token of a sequence; the module's docstring has the assumptions."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    from pipelines.models import backbones, heads
    from pipelines.models.quantization import int8

    tokens, flops = min(FLOPS_TOKENS, backbones.max_positions(model)), [0]

    def linear(module: Any, inputs: Any, output: Any) -> None:
        flops[0] += 2 * module.weight.numel() * (output.numel() // len(module.weight))

    def lstm(module: Any, inputs: Any, output: Any) -> None:
        flops[0] += 2 * tokens * sum(p.numel() for p in module.parameters() if p.dim() == 2)

    # FlopCounterMode does not count these modules
    unseen = {int8.Int8Linear: linear, torch.nn.LSTM: lstm}
    hooks = [m.register_forward_hook(unseen[type(m)]) for m in model.modules() if type(m) in unseen]
    device = next(iter(model.state_dict().values())).device
    batch = {name: torch.ones(1, tokens, dtype=torch.int64, device=device) for name in ("input_ids", "attention_mask")}
    batch["token_type_ids"] = torch.zeros_like(batch["input_ids"])
    try:
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counted:
            heads.outputs(model.eval(), kind, batch)
    finally:
        for hook in hooks:
            hook.remove()
    return (counted.get_total_flops() + flops[0]) // tokens


def latency(predictor: Predictor, split: Split) -> dict[str, Any]:
    """Milliseconds for one row at a time, for rows spread over the split, after a warm-up.

    `p50_spread` has the least and the greatest median of PASSES passes: it shows how steady the machine was.
    """
    rows = split.spread(SINGLE_ROWS)
    passes = [one_at_a_time(predictor, rows) for _ in range(PASSES)]
    p50, p95, p99 = np.quantile(passes, [0.5, 0.95, 0.99])
    medians = np.median(passes, axis=1)
    percentiles = {"p50": p50, "p95": p95, "p99": p99}
    spread = [round(float(bound), 3) for bound in (medians.min(), medians.max())]
    return {name: round(float(milliseconds), 3) for name, milliseconds in percentiles.items()} | {"p50_spread": spread}


def one_at_a_time(predictor: Predictor, rows: pa.Table) -> list[float]:
    """Milliseconds that each of `rows` takes alone, after a warm-up."""
    singles = [rows.slice(i, 1) for i in range(rows.num_rows)]
    for row in singles[:5]:
        predictor.predict(row)
    times = []
    for row in singles:
        start = time.perf_counter()
        predictor.predict(row)
        times.append((time.perf_counter() - start) * 1000)
    return times
