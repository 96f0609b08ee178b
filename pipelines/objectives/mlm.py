"""mlm: masked-language modelling (Devlin et al. 2018, section 3.1), drawn anew for every batch (Liu et al. 2019)."""

from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import AutoModelForMaskedLM, PreTrainedModel

from pipelines.core.errors import InputError
from pipelines.core.params import Fraction, Section
from pipelines.models import backbones
from pipelines.models.batch import IGNORE, Batch

MODEL = AutoModelForMaskedLM


class Params(Section):
    """Shares of tokens. What is neither replaced by [MASK] nor by a random token stays as it is."""

    select: Fraction = 0.15
    mask: Fraction = 0.8  # of the selected
    random: Fraction = 0.1  # of the selected


def corrupt(batch: Batch, rng: np.random.Generator, params: Params, tokenizer: Any) -> Batch:
    """Hide tokens of input_ids (B, T); labels (B, T) hold what they were, and IGNORE elsewhere."""
    ids = batch["input_ids"].numpy()
    special = np.isin(ids, [tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id])
    selected = (rng.random(ids.shape) < params.select) & ~special
    how = rng.random(ids.shape)
    random_ids = rng.integers(0, tokenizer.vocab_size, ids.shape)
    shown = np.where(selected & (how < params.mask), tokenizer.mask_id, ids)
    drawn = selected & (how >= params.mask) & (how < params.mask + params.random)
    shown = np.where(drawn, random_ids, shown)
    labels = np.where(selected, ids, IGNORE)
    return {**batch, "input_ids": torch.from_numpy(shown), "labels": torch.from_numpy(labels)}


def loss(model: nn.Module, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Cross-entropy summed over the selected tokens, and their number; only they meet the vocabulary."""
    inputs = {name: tensor for name, tensor in batch.items() if name != "labels"}
    hidden = backbones.encoder(model)(**inputs).last_hidden_state  # (B, T, H)
    selected = batch["labels"] != IGNORE
    logits = model.get_submodule(backbones.backbone(model).mlm_head)(hidden[selected])  # (selected, V)
    total = nn.functional.cross_entropy(logits.float(), batch["labels"][selected], reduction="sum")
    return total, selected.sum()


def check(model: PreTrainedModel, tokenizer: Any) -> None:
    """Refuse an encoder or a vocabulary that this objective cannot train, before any work."""
    if not backbones.backbone(model).mlm_head:
        raise InputError(f"mlm: the {model.config.model_type} family has no masked-word head here")
    if tokenizer.mask_id is None:
        raise InputError("mlm: the vocabulary has no [MASK]")
