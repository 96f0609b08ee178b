"""Predict the pieces that an encoder would put in place of [MASK]."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from transformers import AutoModelForMaskedLM

from pipelines.checkpoints import loading, pretrained
from pipelines.core.errors import InputError, UsageError
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.task import FILE as TASK_FILE
from pipelines.evaluation.predictions import softmax
from pipelines.models import backbones
from pipelines.text import tokenizer

MASK = "[MASK]"


class Guess(NamedTuple):
    """A piece of the vocabulary and its probability."""

    piece: str
    probability: float


def fill(folder: Path, text: str, top: int) -> list[list[Guess]]:
    """The `top` most probable pieces for each [MASK] in `text`, by the encoder in `folder`."""
    if MASK not in text:
        raise UsageError(f"the text has no {MASK}; write it where a word is to be guessed")
    source = OpenedFolder(folder)
    model, loaded = _model(source), tokenizer.load(source)
    parts = loaded.encode(text.split(MASK))
    ids = [loaded.cls_id]
    for i, (start, end) in enumerate(zip(parts.offsets, parts.offsets[1:], strict=False)):
        ids += [*([loaded.mask_id] if i else []), *parts.values[start:end].tolist()]
    ids.append(loaded.sep_id)
    if len(ids) > (positions := backbones.max_positions(model)):
        raise InputError(f"the text has {len(ids)} tokens; the encoder in {folder} has {positions} positions")
    logits = model(input_ids=torch.tensor([ids])).logits[0]  # (T, V)
    probabilities = softmax(logits[[i for i, piece in enumerate(ids) if piece == loaded.mask_id]].numpy())
    best = np.argsort(-probabilities, axis=1, kind="stable")[:, :top]
    return [
        [Guess(piece, float(row[i])) for i, piece in zip(chosen, loaded.tokens(chosen), strict=True)]
        for row, chosen in zip(probabilities, best, strict=True)
    ]


def _model(folder: OpenedFolder) -> torch.nn.Module:
    none = InputError(f"{folder}: the encoder has no masked-token head; pretraining keeps one, fine-tuning does not")
    head = backbones.BACKBONES[pretrained.family(folder.path)].mlm_head
    if not head or (folder / TASK_FILE).is_file():
        raise none
    model, random = loading.opened(AutoModelForMaskedLM, folder)
    loading.require_whole(folder, {name for name in random if not name.startswith(head)})
    if random:
        raise none
    return model.eval().requires_grad_(False)
