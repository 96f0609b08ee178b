"""Masked tokens: their selection, and what the model sees in their place (Devlin et al. 2018, section 3.1)."""

import hashlib
from functools import lru_cache
from typing import Any, Self

import numpy as np
import torch
from pydantic import Field, model_validator

from pipelines.core.errors import InputError
from pipelines.core.section import Fraction, Section
from pipelines.models import backbones
from pipelines.models.batch import IGNORE, Batch


class Masking(Section):
    """Shares of tokens. A selected token that is replaced neither by [MASK] nor by a random token stays as it is."""

    select: Fraction = 0.15
    mask: Fraction = 0.8  # share of the selected tokens
    random: Fraction = 0.1  # share of the selected tokens
    whole_word: bool = False  # select all pieces of a word or none
    # 0 draws a new mask for every batch (Liu et al. 2019); n draws one of a sequence's n fixed masks (BERT's data: 10)
    masks: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if self.mask + self.random > 1 + 1e-9:
            raise ValueError(f"mask {self.mask} and random {self.random} add up to more than all selected tokens")
        return self


def mask_tokens(batch: Batch, rng: np.random.Generator, params: Masking, tokenizer: Any) -> Batch:
    """Mask tokens of input_ids (B, T); labels (B, T) are the original ids of selected tokens, and IGNORE elsewhere."""
    ids = batch["input_ids"].numpy()
    if not params.masks:
        shown, selected = _draw(ids, rng, params, tokenizer)
    else:
        shown, selected = ids.copy(), np.zeros(ids.shape, bool)
        for row, length in enumerate(_lengths(ids, tokenizer.pad_id)):
            sequence, number = ids[row, :length], int(rng.integers(params.masks))
            drawn = _draw(sequence[None], _own(sequence, number), params, tokenizer)
            shown[row, :length], selected[row, :length] = drawn[0][0], drawn[1][0]
    labels = np.where(selected, ids, IGNORE)
    return {**batch, "input_ids": torch.from_numpy(shown), "labels": torch.from_numpy(labels)}


def _lengths(ids: np.ndarray, pad_id: int) -> np.ndarray:
    """The tokens of each row of (B, T) without the padding at its end, which differs from batch to batch: (B,)."""
    return ids.shape[1] - np.cumprod(ids[:, ::-1] == pad_id, axis=1).sum(axis=1)


def _own(sequence: np.ndarray, number: int) -> np.random.Generator:
    """The generator of a sequence's mask with this number, seeded by the content of the sequence."""
    return np.random.default_rng([number, *hashlib.blake2b(sequence.tobytes(), digest_size=16).digest()])


def _draw(ids: np.ndarray, rng: np.random.Generator, params: Masking, tokenizer: Any) -> tuple[np.ndarray, np.ndarray]:
    """The ids that the model sees, and True for each selected token; both (B, T)."""
    special = np.isin(ids, [tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id])
    chance = rng.random(ids.shape)
    if params.whole_word:
        words = np.cumsum(word_starts(tokenizer)[ids] | special, axis=1) - 1  # (B, T): the number of a token's word
        chance = np.take_along_axis(chance, np.maximum(words, 0), axis=1)
    selected = (chance < params.select) & ~special
    how = rng.random(ids.shape)
    random_ids = rng.integers(0, tokenizer.vocab_size, ids.shape)
    shown = np.where(selected & (how < params.mask), tokenizer.mask_id, ids)
    return np.where(selected & (how >= params.mask) & (how < params.mask + params.random), random_ids, shown), selected


@lru_cache(maxsize=4)
def word_starts(tokenizer: Any) -> np.ndarray:
    """(V,) bool: whether a piece begins a word, by WordPiece's ## or by another vocabulary's mark of a space.

    Raises InputError for a vocabulary with neither: a whole text would then be one word.
    """
    pieces = tokenizer.tokens(range(tokenizer.vocab_size))
    inside = np.array([piece.startswith("##") for piece in pieces])
    spaced = np.array([piece.startswith(("Ġ", "▁")) for piece in pieces])
    starts = spaced if tokenizer.marks_spaces else ~inside & inside.any()  # RoBERTa's vocabulary has ## as a piece
    if not starts.any():
        raise InputError(
            "whole_word: this vocabulary does not mark words: no piece begins with ##, Ġ or ▁; remove whole_word, or "
            "encode the text with another vocabulary"
        )
    return starts


def require_words(options: Any, tokenizer: Any) -> None:
    """Raise InputError if `options` mask whole words, and the vocabulary does not mark them."""
    if getattr(options, "whole_word", False):
        word_starts(tokenizer)


def check(family: str, objective: str) -> None:
    """Raise InputError for a family without a masked-token head."""
    if not backbones.BACKBONES[family].mlm_head:
        raise InputError(f"{objective}: the {family} family has no masked-token head here")
