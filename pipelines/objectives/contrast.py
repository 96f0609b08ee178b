"""contrast: contrastive learning of text vectors, together with masked tokens.

Masked tokens alone do not teach an encoder to represent a whole text. Here the vector of a text is the mean of its
token states. The vector of a first text must be closer to that of its partner than to those of other second texts in
the batch. The two texts are segments of one document (Giorgi et al. 2021, DeCLUTR), or a positive pair, such as a title
and a passage (Wang et al. 2022, E5).
"""

from typing import Any

import numpy as np
import torch
from pydantic import Field, field_validator
from torch import nn
from transformers import AutoModelForMaskedLM

from pipelines.checkpoints import pretrained
from pipelines.models import backbones
from pipelines.models.batch import IGNORE, Batch, Prediction
from pipelines.pretraining import masking, segments

READS = {"text": "segments", "positive_pair": "positive_pair"}
COMPARES_ROWS = True
around = pretrained.itself
TEMPERATURE = 0.05  # of the similarities, as in DeCLUTR


class Params(masking.Masking):
    """The masking, and two keys of the entry: a row alone in a batch, or in a part of it, has nothing to learn from."""

    batch_size: int = Field(32, ge=2)
    accumulate: int = 1

    @field_validator("accumulate")
    @classmethod
    def _whole(cls, accumulate: int) -> int:
        if accumulate > 1:
            raise ValueError(
                "contrast compares the rows of a batch with one another, so a batch is computed in one part; "
                "remove it, and reduce batch_size if a batch does not fit into memory"
            )
        return accumulate


def auto(params: Params) -> Any:
    return AutoModelForMaskedLM


def corrupt(batch: Batch, rng: np.random.Generator, params: Params, tokenizer: Any) -> Batch:
    """Mask tokens of two texts, each a sequence: input_ids, attention_mask and labels (B, 2, T).

    second_text (B,) numbers the second texts; equal ones have one number.
    """
    pairs = batch if batch["input_ids"].dim() == 3 else _apart(batch, tokenizer)
    hidden = masking.mask_tokens({"input_ids": pairs["input_ids"].flatten(0, 1)}, rng, params, tokenizer)
    rows = len(pairs["input_ids"])
    shown = {name: tensor.unflatten(0, (rows, 2)) for name, tensor in hidden.items()}
    second_texts = torch.unique(pairs["input_ids"][:, 1], dim=0, return_inverse=True)[1]
    documents = {"document": batch["document"], "second_text": second_texts}
    return {**shown, "attention_mask": pairs["attention_mask"], **documents}


def _apart(batch: Batch, tokenizer: Any) -> Batch:
    """Make two sequences of two neighbouring segments: input_ids and attention_mask (B, 2, T).

    Each has at most half the tokens of the longest row. [CLS] A [SEP] holds the end of the first segment, [CLS] B [SEP]
    the beginning of the second.
    """
    first, second = segments.split(batch)
    half = max(1, max(len(a) + len(b) for a, b in zip(first, second, strict=True)) // 2)
    parts = [part for a, b in zip(first, second, strict=True) for part in (a[-half:], b[:half])]
    ids = np.full((len(parts), max(map(len, parts)) + 2), tokenizer.pad_id, np.int64)
    for row, part in enumerate(parts):
        ids[row, 0], ids[row, 1 : len(part) + 1], ids[row, len(part) + 1] = tokenizer.cls_id, part, tokenizer.sep_id
    mask = np.arange(ids.shape[1]) < np.array([[len(part) + 2] for part in parts])
    arrays = {"input_ids": ids, "attention_mask": mask.astype(np.int64)}
    return {name: torch.from_numpy(array).unflatten(0, (len(first), 2)) for name, array in arrays.items()}


def predict(model: nn.Module, batch: Batch) -> list[Prediction]:
    """Predict the masked tokens, and the partner of each first text among the batch's second texts: logits (B, B)."""
    ids, mask, labels = (batch[name].flatten(0, 1) for name in ("input_ids", "attention_mask", "labels"))
    states = backbones.encoder(model)(input_ids=ids, attention_mask=mask).last_hidden_state  # (2B, T, H)
    selected = labels != IGNORE
    words = Prediction("mlm", backbones.mlm_logits(model, states[selected]), labels[selected])
    weights = mask[:, :, None].to(states.dtype)
    vectors = nn.functional.normalize((states * weights).sum(dim=1) / weights.sum(dim=1), dim=-1)
    similar = vectors[0::2] @ vectors[1::2].T  # cosines, (B, B)
    others = ~torch.eye(len(similar), dtype=torch.bool, device=similar.device)
    # the second text of another row is not wrong either if the first texts of both are the same, or the second ones
    same = [batch[name][:, None] == batch[name][None, :] for name in ("document", "second_text")]
    diagonal = torch.arange(len(similar), device=similar.device)
    logits = (similar / TEMPERATURE).masked_fill((same[0] | same[1]) & others, -1e4)
    return [words, Prediction("contrast", logits, diagonal)]


def check(family: str) -> None:
    masking.check(family, "contrast")
