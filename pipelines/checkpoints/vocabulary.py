"""Exchange the vocabulary of a trained encoder, so that words of a new corpus become single tokens.

An entry of both vocabularies keeps its embedding. A new entry starts with the mean of the embeddings of the pieces into
which the old tokenizer splits it.
"""

from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel

from pipelines.core.errors import InputError
from pipelines.core.ragged import Ragged, ragged
from pipelines.models import backbones
from pipelines.text.protocol import Tokenizer


def same(old: Tokenizer, new: Tokenizer) -> bool:
    """Return whether every id stands for the same piece in both tokenizers."""
    return old.vocab_size == new.vocab_size and _pieces(old) == _pieces(new)


def exchange(model: PreTrainedModel, old: Tokenizer, new: Tokenizer) -> int:
    """Replace the vocabulary of `old` in `model` by `new`; returns how many entries start from one old embedding."""
    if old.name != new.name:
        raise InputError(
            f"the encoder's tokenizer is {old.name}, the encoded text's {new.name}; "
            "a vocabulary can only be exchanged for one of the same kind"
        )
    sources = _sources(old, new)
    before = [table.detach().clone() for table in _tables(model)]
    words: Any = model.get_input_embeddings()
    padding = words.padding_idx  # XLNet has none
    # MobileBERT resizes one more matrix and does not take the option; all tables are overwritten anyway
    options = {} if backbones.backbone(model).by_piece else {"mean_resizing": False}
    model.resize_token_embeddings(new.vocab_size, **options)
    ids, starts = torch.from_numpy(sources.values.astype(np.int64)), torch.from_numpy(sources.offsets[:-1])
    with torch.no_grad():
        for table, rows in zip(_tables(model), before, strict=True):
            means = nn.functional.embedding_bag(ids, rows.reshape(len(rows), -1), starts, mode="mean")
            table.copy_(means.reshape(table.shape))
    if padding is not None:
        _set_padding(model, padding, new.pad_id)
    return int((sources.lengths == 1).sum())


@torch.no_grad()
def _set_padding(model: PreTrainedModel, before: int, after: int) -> None:
    """Set the padding's id, which has no gradient. RoBERTa's positions begin after it, so their table moves too."""
    words: Any = model.get_input_embeddings()
    words.padding_idx = after
    encoder: Any = backbones.encoder(model)
    if encoder.config.model_type == "roberta":
        positions = encoder.embeddings.position_embeddings
        encoder.embeddings.padding_idx = positions.padding_idx = after
        positions.weight.copy_(positions.weight.roll(after - before, dims=0))


def _tables(model: PreTrainedModel) -> list[torch.Tensor]:
    """The weights with a row per entry: embeddings (V, H), output weights (V, H) if not tied, bias (V,), by_piece.T."""
    output = model.get_output_embeddings()
    named: Any = [model.get_input_embeddings().weight, getattr(output, "weight", None), getattr(output, "bias", None)]
    if path := backbones.backbone(model).by_piece:
        named.append(model.get_parameter(path).T)
    return list({id(table): table for table in named if table is not None}.values())


def _sources(old: Tokenizer, new: Tokenizer) -> Ragged:
    """For each entry of `new`, the ids of `old` whose mean it starts from: an equal entry, or its pieces."""
    known = {piece: i for i, piece in enumerate(_pieces(old))}
    parts = ("pad_id", "unk_id", "cls_id", "sep_id", "mask_id")  # special tokens may have different names
    old_ids = {getattr(new, part): getattr(old, part) for part in parts}
    pieces = _pieces(new)
    old_ids |= {i: known[piece] for i, piece in enumerate(pieces) if i not in old_ids and piece in known}
    cut = old.encode(_texts(new))
    rows = [cut.values[a:b].tolist() for a, b in zip(cut.offsets, cut.offsets[1:], strict=False)]
    return ragged([[old_ids[i]] if i in old_ids else row or [old.unk_id] for i, row in enumerate(rows)])


def _pieces(tokenizer: Tokenizer) -> list[str]:
    return tokenizer.tokens(range(tokenizer.vocab_size))


def _texts(tokenizer: Tokenizer) -> list[str]:
    """The text of each piece, without the marks of its tokenizer."""
    pieces = tokenizer.texts(range(tokenizer.vocab_size))
    return [piece.removeprefix("##").replace("▁", " ").strip() for piece in pieces]
