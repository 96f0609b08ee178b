"""permutation: predict tokens in a random order, each from the tokens before it (XLNet, Yang et al. 2019)."""

from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import nn
from transformers import AutoModelForPreTraining

from pipelines.checkpoints import pretrained
from pipelines.core.errors import InputError
from pipelines.core.section import Section
from pipelines.models.batch import Batch, Prediction

READS = {"text": "packed"}
around = pretrained.itself


class Params(Section):
    """Partial prediction (section 2.3): only the last 1/k of each order is predicted."""

    k: int = Field(6, ge=1)


def auto(params: Params) -> Any:
    return AutoModelForPreTraining


def corrupt(batch: Batch, rng: np.random.Generator, params: Params, tokenizer: Any) -> Batch:
    """Draw an order of each row's tokens.

    XLNet has [SEP] [CLS] at the end. perm_mask (B, T, T) is 1 where token i may not see token j, that is, where j is
    predicted and does not come before i. target_mapping (B, P, T) selects the P predicted tokens; labels (B, P) are
    their ids.
    """
    ids = np.roll(batch["input_ids"].numpy(), -1, axis=1)  # [CLS] ... [SEP] to ... [SEP] [CLS]
    rows, length = ids.shape
    special = np.isin(ids, [tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id])
    predicted = max(1, (length - 2) // params.k)
    order = np.argsort(np.argsort(np.where(special, -1.0, rng.random(ids.shape)), axis=1), axis=1)  # specials first
    target = order >= length - predicted  # the last ones of each order
    hidden = target[:, None, :] & (order[:, None, :] >= np.where(target, order, 0)[:, :, None])
    places = np.nonzero(target)[1].reshape(rows, predicted)
    mapping = np.zeros((rows, predicted, length), np.float32)
    np.put_along_axis(mapping, places[:, :, None], 1, axis=2)
    return {
        "input_ids": torch.from_numpy(ids),
        "perm_mask": torch.from_numpy(hidden.astype(np.float32)),
        "target_mapping": torch.from_numpy(mapping),
        "labels": torch.from_numpy(np.take_along_axis(ids, places, axis=1)),
    }


def predict(model: nn.Module, batch: Batch) -> list[Prediction]:
    inputs = {name: tensor for name, tensor in batch.items() if name != "labels"}
    logits = model(**inputs).logits  # (B, P, V)
    return [Prediction("permutation", logits.flatten(0, 1), batch["labels"].flatten())]


def check(family: str) -> None:
    """Raise InputError for all families but XLNet: no other can hide a token from some tokens and not from others."""
    if family != "xlnet":
        raise InputError(f"permutation: a {family} has no two streams of attention; xlnet has")
