"""contrast: which two segments are of one text, beside masked words (Giorgi et al. 2021, DeCLUTR).

What masked words alone do not teach: to say of a whole text what it is about. An encoder's vector of a text, the mean of its
tokens, is to be nearer to that of the text's other segment than to those of all other segments in the batch.
"""

from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import AutoModelForMaskedLM, PreTrainedModel

from pipelines.models import backbones, masking, pretrained, segments
from pipelines.models.batch import IGNORE, Batch, Prediction

SEGMENTS = True
around = pretrained.itself
Params = masking.Masking
TEMPERATURE = 0.05  # of the similarities, the paper's


def auto(params: Params) -> Any:
    return AutoModelForMaskedLM


def corrupt(batch: Batch, rng: np.random.Generator, params: Params, tokenizer: Any) -> Batch:
    """Two neighbouring segments as two sequences, their words hidden: input_ids, attention_mask and labels (B, 2, T).

    Neither is longer than half of what both were cut from: [CLS] A [SEP], the end of the first, and [CLS] B [SEP], the
    beginning of the second. order (B,) is IGNORE for a row that only fills a batch.
    """
    first, second = segments.split(batch)
    half = max(1, max(len(a) + len(b) for a, b in zip(first, second, strict=True)) // 2)
    parts = [part for a, b in zip(first, second, strict=True) for part in (a[-half:], b[:half])]
    ids = np.full((len(parts), max(map(len, parts)) + 2), tokenizer.pad_id, np.int64)
    for row, part in enumerate(parts):
        ids[row, 0], ids[row, 1 : len(part) + 1], ids[row, len(part) + 1] = tokenizer.cls_id, part, tokenizer.sep_id
    mask = np.arange(ids.shape[1]) < np.array([[len(part) + 2] for part in parts])
    hidden = masking.hide({"input_ids": torch.from_numpy(ids)}, rng, params, tokenizer)
    pairs = {**hidden, "attention_mask": torch.from_numpy(mask.astype(np.int64))}
    shared = {"document": batch["document"], "order": torch.zeros(len(first), dtype=torch.int64)}
    return {name: tensor.reshape(len(first), 2, -1) for name, tensor in pairs.items()} | shared


def predict(model: nn.Module, batch: Batch) -> list[Prediction]:
    """The hidden words; and for each first segment its second one among those of the batch, (B, B)."""
    ids, mask, labels = (batch[name].flatten(0, 1) for name in ("input_ids", "attention_mask", "labels"))
    states = backbones.encoder(model)(input_ids=ids, attention_mask=mask).last_hidden_state  # (2B, T, H)
    selected = labels != IGNORE
    words = Prediction("mlm", backbones.mlm_logits(model, states[selected]), labels[selected])
    weights = mask[:, :, None].to(states.dtype)
    vectors = nn.functional.normalize((states * weights).sum(dim=1) / weights.sum(dim=1), dim=-1)
    similar = vectors[0::2] @ vectors[1::2].T  # cosines, (B, B)
    others = ~torch.eye(len(similar), dtype=torch.bool, device=similar.device)
    same = (batch["document"][:, None] == batch["document"][None, :]) & others  # no wrong answers, these
    own = torch.arange(len(similar), device=similar.device)
    found = (similar / TEMPERATURE).masked_fill(same, -1e4)
    return [words, Prediction("contrast", found, torch.where(batch["order"] == IGNORE, IGNORE, own))]


def check(model: PreTrainedModel, tokenizer: Any) -> None:
    masking.check(model, tokenizer, "contrast")
