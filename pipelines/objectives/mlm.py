"""mlm: masked-language modelling (Devlin et al. 2018) with new masks in every batch (Liu et al. 2019)."""

from typing import Any

import numpy as np
from torch import nn
from transformers import AutoModelForMaskedLM

from pipelines.checkpoints import pretrained
from pipelines.models import backbones
from pipelines.models.batch import IGNORE, Batch, Prediction
from pipelines.pretraining import masking

READS = {"text": "packed"}
around = pretrained.itself
Params = masking.Masking


def auto(params: Params) -> Any:
    return AutoModelForMaskedLM


def corrupt(batch: Batch, rng: np.random.Generator, params: Params, tokenizer: Any) -> Batch:
    """Mask tokens of input_ids (B, T); labels (B, T) are the original ids of selected tokens, and IGNORE elsewhere."""
    return masking.mask_tokens(batch, rng, params, tokenizer)


def predict(model: nn.Module, batch: Batch) -> list[Prediction]:
    """Predict the masked tokens. Only their logits are computed, because logits are most of a small model's cost."""
    inputs = {name: tensor for name, tensor in batch.items() if name != "labels"}
    hidden = backbones.encoder(model)(**inputs).last_hidden_state  # (B, T, H)
    selected = batch["labels"] != IGNORE
    return [Prediction("mlm", backbones.mlm_logits(model, hidden[selected]), batch["labels"][selected])]


def check(family: str) -> None:
    masking.check(family, "mlm")
