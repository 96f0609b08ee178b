"""A word embedding as two matrices, (V, E) and (E, H) (Lan et al. 2020, ALBERT, section 3.1)."""

from typing import Any

import torch
from torch import nn


class Factorized(nn.Module):
    """A replacement for nn.Embedding (V, H): ids (B, T) to (B, T, H) through E dimensions."""

    def __init__(self, entries: int, rank: int, width: int, padding_idx: int | None = None) -> None:
        super().__init__()
        self.words = nn.Embedding(entries, rank, padding_idx)
        self.up = nn.Linear(rank, width, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.up(self.words(ids))

    @property
    def rank(self) -> int:
        """E."""
        return self.words.embedding_dim

    @classmethod
    def put(cls, encoder: Any, rank: int) -> "Factorized":
        """Replace the word embedding of `encoder` by a random one of this rank, unless it is factorized already."""
        whole = encoder.get_input_embeddings()
        if not isinstance(whole, cls):
            factorized = cls(whole.num_embeddings, rank, whole.embedding_dim, whole.padding_idx)
            encoder.set_input_embeddings(factorized.to(whole.weight.device))
            return factorized
        return whole

    @torch.no_grad()
    def fill(self, table: torch.Tensor) -> float:
        """Set the weights to the best least-squares approximation of `table` (V, H) (Eckart and Young 1936).

        With the singular values s_1 >= s_2 >= ... of the table, words = U_E S_E and up = V_E^T. Returns the sum
        of the first E values s_i^2 divided by the sum of all.
        """
        u, s, vt = torch.linalg.svd(table.double(), full_matrices=False)
        rank = self.rank
        self.words.weight.copy_((u[:, :rank] * s[:rank]).to(self.words.weight.dtype))
        self.up.weight.copy_(vt[:rank].T.to(self.up.weight.dtype))
        squares = s.square()
        return float(squares[:rank].sum() / squares.sum())
