"""A second opinion on training: the weights after ten steps are those of torch's optimizer in a plain loop."""

from copy import deepcopy
from pathlib import Path

import pytest
import torch

from pipelines.core.resources import Resources
from pipelines.entries.parts.fit import Fit
from pipelines.training import losses
from pipelines.training.batches import RowBatches
from pipelines.training.distributed import fitting
from tests.support import fits

STEPS, WARM = 10, 2


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_ten_steps_are_those_of_a_plain_loop(optimizer: str, checkout: Path) -> None:
    model = fits.without_dropout(fits.model(checkout))
    plain = deepcopy(model)
    params = Fit(batch_size=4, optimizer=optimizer, learning_rate=1e-2, warmup=WARM / STEPS, max_grad_norm=0)
    batches = RowBatches(fits.rows(), 4, epochs=STEPS / 6, seed=1, pad_id=0)
    assert len(batches) == STEPS
    with fitting("finetune", "ten", Resources(acceleration=False)) as fit:
        fit(model, losses.classification, batches, params)

    weights = dict(plain.named_parameters())
    vectors = [weight for weight in weights.values() if weight.dim() == 1]
    matrices = [weight for weight in weights.values() if weight.dim() > 1]
    parts = [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]
    if optimizer == "adamw":
        updates: torch.optim.Optimizer = torch.optim.AdamW(parts, lr=1e-2, fused=True)
    else:
        updates = torch.optim.SGD(parts, lr=1e-2)
    plain.train()
    for step in range(STEPS):
        rate = (step + 1) / (WARM + 1) if step < WARM else 1 - (step - WARM) / (STEPS - WARM)
        for group in updates.param_groups:
            group["lr"] = 1e-2 * rate
        batch = batches[step]
        logits = plain(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        updates.zero_grad()
        torch.nn.functional.cross_entropy(logits, batch["labels"]).backward()
        updates.step()
    trained = dict(model.named_parameters())
    assert all(weight.equal(trained[name]) for name, weight in weights.items())
