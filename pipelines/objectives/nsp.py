"""nsp: next-sentence prediction beside masked words, as BERT learned (Devlin et al. 2018, section 3.1)."""

from typing import Any

import numpy as np
import torch
from torch import nn

from pipelines.core.entries import Fraction
from pipelines.models import masking, pretrained, segments
from pipelines.models.batch import Batch, Prediction

READS = {"text": "segments"}
around, auto = pretrained.itself, segments.auto
NEXT, RANDOM = 0, 1  # as transformers numbers them


class Params(masking.Masking):
    """The masking, and how often the second segment is of another document."""

    random_next: Fraction = 0.5


def corrupt(batch: Batch, rng: np.random.Generator, params: Params, tokenizer: Any) -> Batch:
    """Put another document's segment in B's place in half of the rows, then hide words; order (B,) says in which."""
    first, second = segments.split(batch)
    documents = batch["document"].numpy()
    order = np.full(len(first), NEXT)
    chosen = list(second)
    for row in np.flatnonzero(rng.random(len(first)) < params.random_next):
        if len(others := np.flatnonzero(documents != documents[row])):
            chosen[row] = second[rng.choice(others)][: len(second[row])]  # no sequence grows
            order[row] = RANDOM
    joined = segments.join(first, chosen, tokenizer)
    return {**masking.hide(joined, rng, params, tokenizer), "order": torch.from_numpy(order)}


def predict(model: nn.Module, batch: Batch) -> list[Prediction]:
    return segments.predict(model, batch, "nsp")


def check(family: str) -> None:
    segments.check(family, "nsp")
