"""Sequences of two segments, [CLS] A [SEP] B [SEP]: split them, join them, and predict their order."""

from typing import Any

import numpy as np
import torch
from transformers import AutoModelForPreTraining

from pipelines.core.errors import InputError
from pipelines.models import backbones
from pipelines.models.batch import Batch, Prediction
from pipelines.pretraining import masking

Segments = list[np.ndarray]  # arrays of ids, one for each row


def auto(params: Any) -> Any:
    """The Auto class for a model with a masked-token head and a head for two segments."""
    return AutoModelForPreTraining


def split(batch: Batch) -> tuple[Segments, Segments]:
    """The segments A and B of each row, without the special tokens."""
    lengths, types = batch["attention_mask"].sum(dim=1).tolist(), batch["token_type_ids"].numpy()
    first = [int(length - row.sum()) for length, row in zip(lengths, types, strict=True)]
    ids = batch["input_ids"].numpy()
    return (
        [row[1 : middle - 1] for row, middle in zip(ids, first, strict=True)],
        [row[middle : length - 1] for row, middle, length in zip(ids, first, lengths, strict=True)],
    )


def join(first: Segments, second: Segments, tokenizer: Any) -> Batch:
    """Join segments A and B: input_ids, attention_mask and token_type_ids, (B, T), padded to the longest."""
    shape = len(first), max(len(a) + len(b) for a, b in zip(first, second, strict=True)) + 3
    ids = np.full(shape, tokenizer.pad_id, np.int64)
    mask, types = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for row, (a, b) in enumerate(zip(first, second, strict=True)):
        middle, end = len(a) + 2, len(a) + len(b) + 3
        ids[row, 0], ids[row, middle - 1], ids[row, end - 1] = tokenizer.cls_id, tokenizer.sep_id, tokenizer.sep_id
        ids[row, 1 : middle - 1], ids[row, middle : end - 1] = a, b
        mask[row, :end], types[row, middle:end] = 1, 1
    arrays = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def predict(model: Any, batch: Batch, name: str) -> list[Prediction]:
    """Predict the masked tokens, and the order of the two segments, batch["order"] (B,), under the name `name`."""
    inputs = {key: batch[key] for key in ("input_ids", "attention_mask", "token_type_ids")}
    output = backbones.encoder(model)(**inputs)
    selected = batch["labels"] >= 0
    words = backbones.mlm_logits(model, output.last_hidden_state[selected])
    order = model.get_submodule(backbones.backbone(model).pair_head)(output.pooler_output)
    masked = Prediction("mlm", words, batch["labels"][selected], of="labels")
    return [masked, Prediction(name, order, batch["order"])]


def check(family: str, objective: str) -> None:
    """Raise InputError for a family that cannot learn masked tokens and the order of segments."""
    masking.check(family, objective)
    if not backbones.BACKBONES[family].pair_head:
        able = [name for name, row in backbones.BACKBONES.items() if row.pair_head]
        raise InputError(f"{objective}: the {family} family has no head for two segments; there are: {', '.join(able)}")
