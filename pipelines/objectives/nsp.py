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
    """Replace B by another document's segment in a share of the rows, then mask tokens; order (B,) marks these rows."""
    first, second = segments.split(batch)
    documents = batch["document"].numpy()
    order = np.full(len(first), NEXT)
    chosen = list(second)
    for row in np.flatnonzero(rng.random(len(first)) < params.random_next):
        if len(others := np.flatnonzero(documents != documents[row])):
            chosen[row] = second[rng.choice(others)][: len(second[row])]  # no sequence gets longer
            order[row] = RANDOM
    joined = segments.join(first, chosen, tokenizer)
    return {**masking.mask_tokens(joined, rng, params, tokenizer), "order": torch.from_numpy(order)}


def predict(model: nn.Module, batch: Batch) -> list[Prediction]:
    return segments.predict(model, batch, "nsp")


def check(family: str) -> None:
    segments.check(family, "nsp")
