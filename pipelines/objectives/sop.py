"""sop: sentence-order prediction together with masked tokens, as for ALBERT (Lan et al. 2019, section 3.1)."""

from typing import Any

import numpy as np
import torch
from torch import nn

from pipelines.checkpoints import pretrained
from pipelines.core.section import Fraction
from pipelines.models.batch import Batch, Prediction
from pipelines.pretraining import masking, segments

READS = {"text": "segments"}
around, auto = pretrained.itself, segments.auto
IN_ORDER, SWAPPED = 0, 1  # as transformers numbers them


class Params(masking.Masking):
    """The masking, and the share of rows whose two segments are swapped."""

    swap: Fraction = 0.5


def corrupt(batch: Batch, rng: np.random.Generator, params: Params, tokenizer: Any) -> Batch:
    """Swap the two segments in a share of the rows, then mask tokens; order (B,) marks the swapped rows."""
    first, second = segments.split(batch)
    order = np.where(rng.random(len(first)) < params.swap, SWAPPED, IN_ORDER)
    swapped = [(b, a) if change else (a, b) for a, b, change in zip(first, second, order, strict=True)]
    joined = segments.join([a for a, _ in swapped], [b for _, b in swapped], tokenizer)
    return {**masking.mask_tokens(joined, rng, params, tokenizer), "order": torch.from_numpy(order)}


def predict(model: nn.Module, batch: Batch) -> list[Prediction]:
    return segments.predict(model, batch, "sop")


def check(family: str) -> None:
    segments.check(family, "sop")
