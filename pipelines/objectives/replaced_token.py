"""replaced_token: detect the tokens that a small generator has replaced (ELECTRA, Clark et al. 2020)."""

from typing import Any, Literal

import numpy as np
from pydantic import Field
from torch import nn
from transformers import AutoModelForMaskedLM, AutoModelForPreTraining, PreTrainedModel

from pipelines.core.errors import InputError
from pipelines.core.section import Positive
from pipelines.models import electra
from pipelines.models.batch import Batch, Prediction
from pipelines.pretraining import masking

READS = {"text": "packed"}


class Params(masking.Masking):
    """The generator, and ELECTRA or one of the paper's ablations (its section 3.4)."""

    generator: float = Field(0.25, gt=0, le=1)  # width of the generator, as a share of the discriminator's
    weight: Positive = 50.0  # weight of the discriminator's loss; the generator's loss has 1
    # electra_15 learns from the selected tokens alone; replace_mlm and all_tokens_mlm predict the original tokens
    variant: Literal["replaced", "electra_15", "replace_mlm", "all_tokens_mlm"] = "replaced"
    mask: float = Field(1.0, ge=0, le=1)  # share of the selected tokens; the generator's guesses replace them
    random: float = Field(0.0, ge=0, le=1)


def auto(params: Params) -> Any:
    return AutoModelForPreTraining if params.variant in ("replaced", "electra_15") else AutoModelForMaskedLM


def around(model: PreTrainedModel, params: Params) -> nn.Module:
    weight = params.weight if params.variant in ("replaced", "electra_15") else 1.0
    return electra.Replacing(model, params.generator, params.variant, weight)


def corrupt(batch: Batch, rng: np.random.Generator, params: Params, tokenizer: Any) -> Batch:
    """Replace tokens by [MASK] for the generator to guess; labels (B, T) are the original ids of these tokens."""
    return masking.mask_tokens(batch, rng, params, tokenizer)


def predict(model: nn.Module, batch: Batch) -> list[Prediction]:
    return model(batch)


def check(family: str) -> None:
    """Raise InputError for all families but ELECTRA: no other has a head for replaced tokens."""
    if family != "electra":
        raise InputError(f"replaced_token: a {family} has no head for replaced tokens; electra has one")
