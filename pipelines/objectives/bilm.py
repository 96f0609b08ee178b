"""bilm: predict each token from all before it and from all after it, with two LSTMs (ELMo, Peters et al. 2018)."""

from typing import Any

import numpy as np
from torch import nn
from transformers import AutoModelForPreTraining

from pipelines.checkpoints import pretrained
from pipelines.core.errors import InputError
from pipelines.core.section import Section
from pipelines.models import bilstm
from pipelines.models.batch import Batch, Prediction

READS = {"text": "packed"}
around = pretrained.itself


class Params(Section):
    """No params: no token is masked."""


def auto(params: Params) -> Any:
    return AutoModelForPreTraining


def corrupt(batch: Batch, rng: np.random.Generator, params: Params, tokenizer: Any) -> Batch:
    """Leave the text as it is; every token is a label."""
    return {**batch, "labels": batch["input_ids"]}


def predict(model: nn.Module, batch: Batch) -> list[Prediction]:
    """Predict token t + 1 from the forward state at t and t - 1 from the backward one by one softmax (section 3.1)."""
    ids = batch["input_ids"]
    ahead, back = model(input_ids=ids).last_hidden_state.chunk(2, dim=-1)  # (B, T, H / 2) each
    decoder = model.get_submodule("decoder")
    return [
        Prediction("forward", decoder(ahead[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()),
        Prediction("backward", decoder(back[:, 1:]).flatten(0, 1), ids[:, :-1].flatten()),
    ]


def check(family: str) -> None:
    """Raise InputError for any other family: its tokens see both sides, and so the token to predict."""
    if family != bilstm.BilstmConfig.model_type:
        raise InputError(f"bilm: a {family} reads in both directions at once; bilstm reads each separately")
