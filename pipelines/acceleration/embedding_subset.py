"""The embedding subset: while a model trains, its embedding table holds only the words of the training rows.

Words that occur in no row have no gradient: AdamW and SGD only decay them. Leaving them out makes every step faster.
One extra row of ones, which no id refers to, decays in the same way; at the end the left-out words are multiplied by
it. V words, U of them in the training rows, H dimensions each.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from pipelines.models import backbones
from pipelines.models.factorized import Factorized

SHARE = 0.8  # the table stays whole if the rows use a larger share of it


class EmbeddingSubset(nn.Module):
    """Replaces the full embedding table, and takes the same ids."""

    place: torch.Tensor

    def __init__(self, whole: nn.Embedding, used: torch.Tensor) -> None:
        super().__init__()
        self.whole = [whole]  # in a list, so that it is not a submodule and does not train
        place = torch.full((whole.num_embeddings,), len(used))  # left-out words: the row of ones
        place[used] = torch.arange(len(used))
        self.register_buffer("place", place, persistent=False)
        witness = whole.weight.new_ones(1, whole.embedding_dim)
        self.weight = nn.Parameter(torch.cat([whole.weight.detach()[used], witness]))  # (U + 1, H)
        self.padding_idx = None if whole.padding_idx is None else int(place[whole.padding_idx])

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Ids (B, T) to embeddings (B, T, H); in eval mode also for left-out words, which other rows may hold."""
        places = self.place[ids]
        embeddings = nn.functional.embedding(places, self.weight, self.padding_idx)
        if not self.training:  # training rows hold no left-out words, and indexing would wait for a GPU
            others = places == len(self.weight) - 1
            embeddings[others] = self._others(ids[others])
        return embeddings

    def _others(self, ids: torch.Tensor) -> torch.Tensor:
        """Embeddings of left-out words, with their decay so far: (N,) to (N, H)."""
        first = self.whole[0].weight.detach()
        return first[ids.to(first.device)].to(self.weight.device) * self.weight[-1].detach()

    @torch.no_grad()
    def give_back(self) -> nn.Embedding:
        """The full embedding table after training."""
        whole = self.whole[0].to(self.weight.device)
        whole.weight *= self.weight[-1]
        used = self.place < len(self.weight) - 1
        whole.weight[used] = self.weight[self.place[used]]
        return whole


@contextmanager
def only(model: nn.Module, ids: np.ndarray, pad_id: int) -> Iterator[bool]:
    """Inside the block, the embedding table of `model` holds only the words in `ids` (N,) and the padding.

    Yields whether it does: a table stays whole if it does not train, or if most of its words are used.
    """
    if not any(p.requires_grad for part in backbones.embeddings(model) for p in part.parameters()):
        yield False
        return
    encoder = backbones.encoder(model)
    embedding: Any = encoder.get_input_embeddings()
    whole = embedding.words if isinstance(embedding, Factorized) else embedding
    counts = np.bincount(ids, minlength=whole.num_embeddings)
    counts[pad_id] += 1
    used = np.flatnonzero(counts)
    if len(used) > SHARE * len(counts):
        yield False
        return
    words = EmbeddingSubset(whole, torch.from_numpy(used)).train(whole.training)
    _put(encoder, embedding, words)
    try:
        yield True
    finally:
        _put(encoder, embedding, words.give_back())


def _put(encoder: Any, embedding: Any, words: nn.Module) -> None:
    """Replace the table of words, which may be the first of two matrices (Factorized)."""
    if isinstance(embedding, Factorized):
        setattr(embedding, "words", words)  # noqa: B010 (it is typed as a whole table)
    else:
        encoder.set_input_embeddings(words)
