"""Linear layers of an encoder by MKL, as torch computes them, and by oneDNN, as `acceleration.onednn_linear` does.

The six products of a BERT layer, as many layers as take some milliseconds, forward and through training steps; fp32.
The gradient of a bias, as a product with ones, against torch's sum over rows.
A peer faster than ours is no fault here: on Intel's CPUs the project leaves torch as it is.
"""

from collections.abc import Callable
from functools import partial

import harness
import torch
from torch import nn

from pipelines.acceleration import onednn_linear

SHAPES = {"384_tokens_of_384": (384, 384), "1024_tokens_of_384": (1024, 384), "512_tokens_of_768": (512, 768)}
LAYERS = 4


def stack(width: int) -> nn.Sequential:
    """Query, key, value, output, and the two of the feed-forward part, `LAYERS` times."""
    layer = [(width, width)] * 4 + [(width, 4 * width), (4 * width, width)]
    return nn.Sequential(*(nn.Linear(*shape) for shape in layer * LAYERS))


def main() -> None:
    options = harness.arguments(__doc__ or "")
    claims, gflops = [], {}
    for name, (tokens, width) in SHAPES.items():
        theirs, ours, states = stack(width), stack(width), torch.randn(tokens, width)
        for layer in ours:
            layer.forward = partial(onednn_linear._forward, layer)
        work = 2 * tokens * 12 * width**2 * LAYERS
        for what, times in (("forward", 1), ("training", 3)):
            seconds = harness.in_turn(
                {"theirs": run(theirs, states, what), "ours": run(ours, states, what)}, 10 if options.quick else 40
            )
            claims.append(harness.ratio(f"{what}_{name}_vs_MKL", 1.5, seconds["theirs"][2:], seconds["ours"][2:]))
            gflops[f"{what}_{name}"] = {
                who: round(times * work / min(durations) / 1e9) for who, durations in seconds.items()
            }
        rows = torch.randn(tokens, 4 * width)  # of a gradient: the bias takes their sum
        ones = rows.new_ones(tokens)
        sums = {"theirs": lambda rows=rows: rows.sum(dim=0), "ours": lambda rows=rows, ones=ones: rows.t().mv(ones)}
        seconds = harness.in_turn(sums, 20 if options.quick else 200)
        claims.append(harness.ratio(f"bias_gradient_{name}_vs_sum", 1.0, seconds["theirs"][2:], seconds["ours"][2:]))
    harness.report(claims, ("torch",), options.json, gflops=gflops, used_here=onednn_linear.faster())


def run(model: nn.Module, states: torch.Tensor, what: str) -> Callable[[], None]:
    def forward() -> None:
        with torch.inference_mode():
            model(states)

    def training() -> None:
        model.zero_grad()
        model(states).sum().backward()

    return training if what == "training" else forward


if __name__ == "__main__":
    main()
