"""Dropout as torch draws it on a CPU, and from bits, as `acceleration.fast_dropout` does; forward and back, p 0.1.

States of a batch of headlines, of a batch of longer rows, and the weights of attention, six heads.
"""

from functools import partial

import harness
import torch
from torch import nn

from pipelines.acceleration import fast_dropout

SHAPES = {
    "16_rows_of_24_of_384": (16, 24, 384),
    "32_rows_of_128_of_256": (32, 128, 256),
    "attention_6_of_64": (6, 6, 64, 64),
}


def step(layer: nn.Module, states: torch.Tensor) -> None:
    layer(states).sum().backward()


def from_bits(layer: nn.Module, states: torch.Tensor) -> None:
    with fast_dropout.from_bits(layer):
        step(layer, states)


def main() -> None:
    options = harness.arguments(__doc__ or "")
    claims = []
    for name, shape in SHAPES.items():
        given_to = nn.Dropout(0.1), torch.randn(shape, requires_grad=True)
        contenders = {"theirs": partial(step, *given_to), "ours": partial(from_bits, *given_to)}
        seconds = harness.in_turn(contenders, 20 if options.quick else 200)
        claims.append(harness.ratio(f"dropout_{name}_vs_torch", 2, seconds["theirs"][10:], seconds["ours"][10:]))
    harness.report(claims, ("torch", "numpy"), options.json)


if __name__ == "__main__":
    main()
