"""Dropout as torch draws it on a CPU, and from bits, as `pipelines.models.dropout` does; forward and back, p 0.1.

States of a batch of headlines, of a batch of longer rows, and the weights of attention, six heads.
"""

from functools import partial

import harness
import torch
from torch import nn

from pipelines.models import dropout

SHAPES = {
    "16_rows_of_24_of_384": (16, 24, 384),
    "32_rows_of_128_of_256": (32, 128, 256),
    "attention_6_of_64": (6, 6, 64, 64),
}


def step(states: torch.Tensor) -> None:
    nn.functional.dropout(states, 0.1).sum().backward()


def by_bits(states: torch.Tensor) -> None:
    with dropout.from_bits():
        step(states)


def main() -> None:
    given = harness.arguments(__doc__ or "")
    claims = []
    for name, shape in SHAPES.items():
        states = torch.randn(shape, requires_grad=True)
        seconds = harness.in_turn(
            {"theirs": partial(step, states), "ours": partial(by_bits, states)}, 20 if given.quick else 200
        )
        claims.append(harness.ratio(f"dropout_{name}_vs_torch", 2, seconds["theirs"][10:], seconds["ours"][10:]))
    harness.report(claims, ("torch", "numpy"), given.json)


if __name__ == "__main__":
    main()
