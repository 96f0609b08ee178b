"""prune_vocab: drop the pieces of the vocabulary that the training rows use never or seldom; nothing is trained.

Abdaoui et al. 2020 ("Load What You Need: Smaller Versions of Multilingual BERT") keep the pieces of one language in
this way, or only those that its texts use most (section 3). The tokenizer loses the same entries as the embedding, and
the model folder holds its own, shorter vocabulary. A text whose pieces all stay is cut into the same pieces and gets
the same prediction (`pipelines/text/vocabulary_pruning.py` explains why). Other texts are cut into smaller pieces: at
worst into single characters, if these are kept.

To apply another method to the result, encode the rows with its vocabulary: `vocab: artifacts/models/NAME`.
"""

import shutil
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel

from pipelines.compression.context import Context
from pipelines.core.errors import UsageError
from pipelines.core.section import Count, Section
from pipelines.models import backbones
from pipelines.models.factorized import Factorized
from pipelines.text import tokenizer as text_tokenizer
from pipelines.text import vocabulary_pruning

FAMILIES = tuple(backbones.BACKBONES)
EXAMPLE: dict[str, Any] = {}


class Params(Section):
    """The pieces that stay besides the special tokens."""

    characters: bool = True  # keep single characters, so that unseen words can still be spelt
    most: Count | None = None  # the number of pieces in use that stay, the most frequent ones; by default all


def compress(context: Context, params: Params) -> PreTrainedModel:
    """The teacher with a smaller vocabulary; its tokenizer is written into `context.own_tokenizer`."""
    model, tokenizer = context.teacher, context.tokenizer
    vocabulary_pruning.check(tokenizer.name, params.characters, "params.yaml: compress: prune_vocab")
    used = in_use(context.data.train.ids, params.most)
    stay = vocabulary_pruning.staying(tokenizer, used, params.characters, context.source)
    if len(stay) == tokenizer.vocab_size:
        raise UsageError(f"params.yaml: compress: prune_vocab: all {len(stay):,} pieces of the vocabulary are needed")
    shutil.rmtree(context.own_tokenizer, ignore_errors=True)
    vocabulary_pruning.write(tokenizer, context.source, context.own_tokenizer, stay)
    new = text_tokenizer.load(context.own_tokenizer)
    assert new.tokens(range(new.vocab_size)) == tokenizer.tokens(stay), "another order of the pieces"
    keep(model, stay)
    context.found.update(pieces=len(stay), of=tokenizer.vocab_size)
    return model


def in_use(ids: np.ndarray, most: int | None) -> list[int]:
    """The ids that occur, or the `most` of them that occur most often; among equals the lower ids."""
    pieces, times = np.unique(ids, return_counts=True)
    return pieces[np.argsort(-times, kind="stable")[:most]].tolist()


@torch.no_grad()
def keep(model: PreTrainedModel, stay: list[int]) -> None:
    """Keep only these rows of the word embedding, and update every config inside `model`."""
    encoder: Any = backbones.encoder(model)
    embedding = encoder.get_input_embeddings()
    old = embedding.words if isinstance(embedding, Factorized) else embedding
    new_id = {old_id: i for i, old_id in enumerate(stay)}
    shortened = nn.Embedding(len(stay), old.embedding_dim, None if old.padding_idx is None else new_id[old.padding_idx])
    shortened.weight.copy_(old.weight[stay])
    if isinstance(embedding, Factorized):
        embedding.words = shortened
    else:
        encoder.set_input_embeddings(shortened)
    configs = {id(m.config): m.config for m in model.modules() if hasattr(m, "config")}
    for config in configs.values():
        _renumber(config, new_id)


def _renumber(config: Any, new_id: dict[int, int]) -> None:
    """Set the new size of the vocabulary and the new ids of special tokens in a config."""
    if config.model_type == "roberta" and new_id.get(config.pad_token_id) != config.pad_token_id:
        raise UsageError("params.yaml: compress: prune_vocab: RoBERTa's padding must keep its id")
    for name, value in list(config.to_dict().items()):
        if name == "vocab_size":
            config.vocab_size = len(new_id)
        elif name.endswith("_token_id") and isinstance(value, int) and getattr(config, name, None) == value:
            setattr(config, name, new_id.get(value))
