"""Optimizers and schedules, by hand."""

import math
from pathlib import Path

import pytest
import torch
from torch import nn

from pipelines.checkpoints import new_head
from pipelines.entries.parts.fit import Fit
from pipelines.training import optim
from tests.support import tiny

FACTORS = {  # of ten steps, two of them warm-up
    "linear": [1 / 3, 2 / 3, *(1 - i / 8 for i in range(8))],
    "cosine": [1 / 3, 2 / 3, *((1 + math.cos(math.pi * i / 8)) / 2 for i in range(8))],
    "constant": [1 / 3, 2 / 3, *[1.0] * 8],
}


@pytest.mark.parametrize("schedule", FACTORS)
def test_a_schedule_rises_to_its_peak_and_falls_to_its_end(schedule: str) -> None:
    params = Fit(schedule=schedule, warmup=0.2)
    assert [optim.factor(step, 10, params) for step in range(10)] == pytest.approx(FACTORS[schedule])
    assert optim.factor(0, 1, params.model_copy(update={"warmup": 0.0})) == 1


def stepped(params: Fit, gradient: float, steps: int) -> nn.Linear:
    """A layer of ones after `steps` steps by the same gradient everywhere."""
    layer = nn.Linear(2, 2)
    for parameter in layer.parameters():
        nn.init.ones_(parameter)
        parameter.grad = torch.full_like(parameter, gradient)
    optimizer = optim.optimizer(layer, optim.all_parameters(layer, params.learning_rate), params)
    for _ in range(steps):
        optimizer.step()
    return layer


@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_matrices_decay_and_biases_do_not(name: str) -> None:
    layer = stepped(Fit(optimizer=name, learning_rate=0.1, weight_decay=0.5), 0.0, 1)
    assert layer.weight.flatten().tolist() == pytest.approx([0.95] * 4)
    assert layer.bias.tolist() == [1.0, 1.0]


def test_biases_of_several_dimensions_do_not_decay(tmp_path: Path) -> None:
    model = new_head.for_task(tiny.of_family("xlnet", tmp_path), tiny.TASK)
    params = Fit(weight_decay=0.5)
    groups = optim.optimizer(model, optim.all_parameters(model, 0.1), params).param_groups
    decay = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    biases = {name: p for name, p in model.named_parameters() if name.endswith("bias")}
    assert any(p.dim() > 1 for p in biases.values())
    assert {decay[id(p)] for p in biases.values()} == {0.0}
    assert set(decay.values()) == {0.0, 0.5}


def test_sgd_has_the_momentum_asked_for() -> None:
    layer = stepped(Fit(optimizer="sgd", learning_rate=0.1, momentum=0.5, weight_decay=0.0), 1.0, 2)
    assert layer.bias.tolist() == pytest.approx([1 - 0.1 - 0.1 * 1.5] * 2)


def test_what_is_frozen_is_in_no_group() -> None:
    layer = nn.Linear(2, 2)
    layer.weight.requires_grad_(False)
    (group,) = optim.all_parameters(layer, 0.1)
    assert [id(p) for p in group["params"]] == [id(layer.bias)]
