"""Train on a few rows of random ids, in this process or in Ray's workers."""

from pathlib import Path

import numpy as np
import torch

from pipelines.checkpoints import new_head
from pipelines.core.ragged import offsets
from pipelines.core.resources import Resources
from pipelines.entries.parts.fit import Fit
from pipelines.training import losses
from pipelines.training.batches import Encoded, RowBatches
from pipelines.training.distributed import fitting
from tests.support import tiny

Weights = dict[str, torch.Tensor]
NEVER, EACH_STEP = 5.0, 1e-9  # minutes between two checkpoints


def rows(count: int = 24, vocab: int = 60, seed: int = 0) -> Encoded:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 12, count)
    ids = rng.integers(5, vocab, lengths.sum()).astype(np.uint16)
    return Encoded(ids, offsets(lengths), lengths.astype(np.int64), rng.integers(0, 3, count))


def model(folder: Path) -> torch.nn.Module:
    """A random model for these rows, with a head of this project; its encoder is written to `folder`."""
    torch.manual_seed(1)
    return new_head.for_task(tiny.encoder(folder / "encoder"), tiny.TASK, "linear")


def weights(model: torch.nn.Module) -> Weights:
    """A copy of the weights, which does not change while the model learns."""
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def without_dropout(model: torch.nn.Module) -> torch.nn.Module:
    """The model with dropout turned off, since each worker and each part of a batch would draw different numbers."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if hasattr(module, "dropout_prob"):
            module.dropout_prob = 0.0
    model.config.encoder.attention_probs_dropout_prob = 0.0
    return model


def params(epochs: int) -> Fit:
    """Params with SGD. If a gradient is only rounding noise, Adam would scale it to a full step."""
    return Fit(epochs=epochs, batch_size=4, optimizer="sgd", momentum=0.9, learning_rate=0.02)


def trained(
    folder: Path, workers: int | tuple[int, int], params: Fit, often: bool = False
) -> tuple[Weights, list[float]]:
    """Train without dropout; returns the weights and the loss curve."""
    torch.manual_seed(1)
    model = without_dropout(new_head.for_task(tiny.encoder(folder / f"encoder-{workers}"), tiny.TASK, "linear"))
    curve: list[float] = []
    resources = Resources(workers=workers, checkpoint_minutes=EACH_STEP if often else NEVER)
    with fitting("finetune", f"w{workers}", resources) as fit:
        batches = RowBatches(rows(), 4, params.epochs, 1, 0)
        fit(model, losses.classification, batches, params, report=lambda step, at: curve.append(at["loss"]))
    return weights(model), curve
