"""The words of the training rows, alone in the embedding table: the others learn nothing, and cost every step their time.

A word that no row holds has no gradient, so AdamW and SGD do nothing to it but let it decay. A witness, a row of ones that no
id names, decays beside the words that learn, and says at the end what the others are to be multiplied by. V words, U of them
in use, H numbers each.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from pipelines.models import backbones

SHARE = 0.8  # of the vocabulary in use, above which all of it stays


class UsedWords(nn.Module):
    """Stands where the embedding of all words was, and takes their ids."""

    place: torch.Tensor

    def __init__(self, whole: nn.Embedding, used: torch.Tensor) -> None:
        super().__init__()
        self.whole = [whole]  # in a list: no part of the model while it trains
        place = torch.full((whole.num_embeddings,), len(used))  # the witness's, if not in use
        place[used] = torch.arange(len(used))
        self.register_buffer("place", place, persistent=False)
        witness = whole.weight.new_ones(1, whole.embedding_dim)
        self.weight = nn.Parameter(torch.cat([whole.weight.detach()[used], witness]))  # (U + 1, H)
        self.padding_idx = None if whole.padding_idx is None else int(place[whole.padding_idx])

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """(B, T) to (B, T, H); outside training of words that are not in use as well: other rows may hold them."""
        places = self.place[ids]
        found = nn.functional.embedding(places, self.weight, self.padding_idx)
        if not self.training:  # in a step of training a GPU would have to be waited for
            others = places == len(self.weight) - 1
            found[others] = self._others(ids[others])
        return found

    def _others(self, ids: torch.Tensor) -> torch.Tensor:
        """Words that are not in use, decayed as far as the training has come: (N,) to (N, H)."""
        first = self.whole[0].weight.detach()
        return first[ids.to(first.device)].to(self.weight.device) * self.weight[-1].detach()

    @torch.no_grad()
    def give_back(self) -> nn.Embedding:
        """The embedding of all words, trained."""
        whole = self.whole[0].to(self.weight.device)
        whole.weight *= self.weight[-1]
        used = self.place < len(self.weight) - 1
        whole.weight[used] = self.weight[self.place[used]]
        return whole


@contextmanager
def only(model: nn.Module, ids: np.ndarray, pad_id: int) -> Iterator[None]:
    """Inside the block the embedding table of `model` has the words in `ids` and the padding alone, if it trains."""
    if not any(p.requires_grad for part in backbones.embeddings(model) for p in part.parameters()):
        yield
        return
    encoder = backbones.encoder(model)
    whole: Any = encoder.get_input_embeddings()
    counts = np.bincount(ids, minlength=whole.num_embeddings)
    counts[pad_id] += 1
    used = np.flatnonzero(counts)
    if len(used) > SHARE * len(counts):
        yield
        return
    words = UsedWords(whole, torch.from_numpy(used)).train(whole.training)
    encoder.set_input_embeddings(words)
    try:
        yield
    finally:
        encoder.set_input_embeddings(words.give_back())
