"""Small models and rows for the paths of a GPU; where there is none, a stand-in for its kernel."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    ElectraConfig,
    ElectraForSequenceClassification,
    RobertaConfig,
    RobertaForSequenceClassification,
)

from pipelines.acceleration import varlen_attention
from pipelines.core.ragged import offsets
from pipelines.entries.parts.fit import Fit
from pipelines.training import losses
from pipelines.training.batches import Encoded, RowBatches
from pipelines.training.loop import Groups, Job, Loss

CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda" if CUDA else "cpu")
FAMILIES: dict[str, tuple[type, type]] = {
    "bert": (BertConfig, BertForSequenceClassification),
    "roberta": (RobertaConfig, RobertaForSequenceClassification),
    "electra": (ElectraConfig, ElectraForSequenceClassification),
}
SHAPE = {"num_hidden_layers": 3, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
NEVER = 1e9  # seconds between two checkpoints


def model(family: str = "bert", dropout: float = 0.1, seed: int = 1) -> Any:
    """A random classifier of three classes."""
    config, kind = FAMILIES[family]
    torch.manual_seed(seed)
    drops = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    return kind(config(vocab_size=90, num_labels=3, initializer_range=0.05, **SHAPE, **drops))


def rows(count: int = 24, seed: int = 0) -> Encoded:
    """Rows of 3 to 30 random ids."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 31, count)
    ids = rng.integers(5, 90, lengths.sum()).astype(np.uint16)
    return Encoded(ids, offsets(lengths), None, rng.integers(0, 3, count))


def job(model: nn.Module, place: Path, params: Fit, loss: Loss = losses.classification, **more: Any) -> Job:
    """A training on `rows`, with its checkpoint in `place`."""
    batches: Any = more.pop("batches", None) or RowBatches(rows(), params.batch_size, params.epochs, 1, 0)
    groups: Groups | None = more.pop("groups", None)
    return Job(model, loss, batches, params, groups, place / "fit.pt", NEVER, **more)


def each_row(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, at: Any, dropout: float) -> torch.Tensor:
    """Attention by its definition, (N, heads, d), a row at a time (Vaswani et al. 2017, eq. 1)."""
    rows = []
    for start, end in zip(at.bounds.tolist(), at.bounds.tolist()[1:], strict=False):
        q, k, v = (part[start:end].transpose(0, 1) for part in (query, key, value))
        weights = torch.softmax(q @ k.transpose(1, 2) / q.shape[-1] ** 0.5, dim=-1)
        rows.append((nn.functional.dropout(weights, dropout) @ v).transpose(0, 1))
    return torch.cat(rows)


class NoWaiting(TorchDispatchMode):
    """Raises where a number is read from a tensor, for which a GPU would be waited for."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func not in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default), func
        return func(*args, **(kwargs or {}))


@contextmanager
def no_waiting() -> Iterator[None]:
    """Inside the block it is an error to wait for the GPU, or on a CPU to read a number from a tensor."""
    if not CUDA:
        with NoWaiting():
            yield
        return
    with warnings.catch_warnings(action="ignore"):  # torch says once that this does not see all waiting
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The tokens of each call of the kernel, which on a CPU is attention by its definition."""
    kernel: Callable[..., torch.Tensor] = varlen_attention.attend if CUDA else each_row
    counts: list[int] = []

    def counted(query: torch.Tensor, *more: Any) -> torch.Tensor:
        counts.append(len(query))
        return kernel(query, *more)

    monkeypatch.setattr(varlen_attention, "attend", counted)
    if not CUDA:
        monkeypatch.setattr(varlen_attention, "serves", lambda device: True)
    return counts
