"""nsp: next-sentence prediction together with masked tokens, as for BERT (Devlin et al. 2018, section 3.1)."""

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
NEXT, RANDOM = 0, 1  # as transformers numbers them


class Params(masking.Masking):
    """The masking, and the share of rows whose second segment comes from another document."""

    random_next: Fraction = 0.5


def corrupt(batch: Batch, rng: np.random.Generator, params: Params, tokenizer: Any) -> Batch:
    """Replace B by the end of another document's row in a share of the rows, then mask; order (B,) marks these rows.

    The new B has as many tokens as the old one, or else lengths would show the order. Like it, it begins inside a row
    and ends where the row ends. If no other document's row is long enough, the longest is taken, and B gets shorter.
    """
    first, second = segments.split(batch)
    documents = batch["document"].numpy()
    lengths = np.array([len(a) + len(b) for a, b in zip(first, second, strict=True)])
    order = np.full(len(first), NEXT)
    chosen = list(second)
    for row in np.flatnonzero(rng.random(len(first)) < params.random_next):
        if len(others := np.flatnonzero(documents != documents[row])):
            length = min(len(second[row]), int(lengths[others].max()) - 1)
            other = rng.choice(others[lengths[others] > length])
            chosen[row] = np.concatenate([first[other], second[other]])[-length:]
            order[row] = RANDOM
    joined = segments.join(first, chosen, tokenizer)
    return {**masking.mask_tokens(joined, rng, params, tokenizer), "order": torch.from_numpy(order)}


def predict(model: nn.Module, batch: Batch) -> list[Prediction]:
    return segments.predict(model, batch, "nsp")


def check(family: str) -> None:
    segments.check(family, "nsp")
