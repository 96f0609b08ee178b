"""Which layer follows which, and when a module is replaced: the numbers of the papers, worked by hand."""

from pathlib import Path

import pytest
import torch
from torch import nn

from pipelines.checkpoints import new_head
from pipelines.compression.methods import pkd, theseus, tinybert
from pipelines.core.errors import UsageError
from pipelines.models import backbones
from tests.support import fits, tiny


def test_pkd_follows_the_layers_of_the_paper() -> None:
    """Sun et al. 2019, section 3.2: {2, 4, 6, 8, 10} or {7, ..., 11} for 6 of 12 layers; {4, 8} for 3."""
    assert pkd.followed(12, 6, "skip") == (2, 4, 6, 8, 10)
    assert pkd.followed(12, 6, "last") == (7, 8, 9, 10, 11)
    assert pkd.followed(12, 3, "skip") == (4, 8)
    assert pkd.followed(12, 3, "last") == (10, 11)
    for count in range(3, 25):
        for layers in range(2, count):
            for how in ("skip", "last"):
                followed = pkd.followed(count, layers, how)
                assert len(set(followed)) == layers - 1
                assert [*followed] == sorted(followed)
                assert 1 <= followed[0] <= followed[-1] < count


def test_tinybert_follows_the_layers_of_the_paper() -> None:
    """Jiao et al. 2020: g(m) = 3 m for 4 of 12 layers, and the top and the bottom ones of section 4.4."""
    assert tinybert.followed(12, 4, "uniform") == (3, 6, 9, 12)
    assert tinybert.followed(12, 4, "top") == (9, 10, 11, 12)
    assert tinybert.followed(12, 4, "bottom") == (1, 2, 3, 4)
    assert tinybert.followed(12, 6, "uniform") == (2, 4, 6, 8, 10, 12)
    assert tinybert.followed(12, 2, [5, 9]) == (5, 9)
    with pytest.raises(UsageError, match="the teacher has no layer -1; it has layers 1 to 4"):
        tinybert.followed(4, 6, "top")


def test_the_rate_of_replacement_is_constant_or_rises_to_one() -> None:
    """Xu et al. 2020, section 3.3: min(1, k t + b)."""
    constant = theseus.Params(replacing="constant", rate=0.5)
    assert [theseus.rate_at(step, 100, constant) for step in (0, 50, 99)] == [0.5, 0.5, 0.5]
    linear = theseus.Params(rate=0.3, slope=0.0006)
    rates = [theseus.rate_at(step, 2500, linear) for step in (0, 500, 1166, 1167, 2499)]
    assert rates == pytest.approx([0.3, 0.6, 0.9996, 1.0, 1.0])
    by_default = theseus.Params(rate=0.2)
    assert [theseus.rate_at(step, 100, by_default) for step in (0, 25, 50, 75)] == pytest.approx([0.2, 0.6, 1.0, 1.0])


class Adds(nn.Module):
    """A layer that adds a number."""

    kind = "full"

    def __init__(self, number: float) -> None:
        super().__init__()
        self.number = nn.Parameter(torch.tensor(number))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return states + self.number


def test_a_place_is_the_layer_or_the_successor_or_nothing() -> None:
    zero = torch.zeros(1)
    places = [theseus.Place(Adds(1.0), Adds(100.0)), theseus.Place(Adds(2.0), None)]
    assert places[0].kind == "full"
    for replaced, expected in ((False, 3.0), (True, 100.0)):
        states = zero
        for place in places:
            place.replaced = replaced
            states = place(states)
        assert states.item() == expected
    assert places[0].train().successor.training
    assert not places[0].layer.training


def test_a_ship_of_replaced_modules_is_the_student(checkout: Path) -> None:
    """All modules replaced: the student's numbers. None replaced: the teacher's."""
    source = tiny.of_family("bert", checkout / "encoder", dropout=False, layers=4)
    torch.manual_seed(1)
    teacher = new_head.for_task(source, tiny.TASK).eval()
    ship = new_head.for_task(source, tiny.TASK).eval()
    ship.load_state_dict(teacher.state_dict())
    donor = new_head.for_task(source, tiny.TASK).eval()
    donor.load_state_dict(teacher.state_dict())
    for parameter in backbones.layers(donor).parameters():
        nn.init.normal_(parameter, std=0.2)
    assert len(theseus.board(ship, [*backbones.layers(donor)[:2]])) == 2
    inputs = {"input_ids": torch.randint(5, 50, (3, 9)), "attention_mask": torch.ones(3, 9, dtype=torch.int64)}
    params = theseus.Params(replacing="constant", rate=0.0)
    with torch.inference_mode():
        theseus.replace(ship, 0, 10, modules=2, params=params, seed=1)
        assert ship(**inputs).logits.equal(teacher(**inputs).logits)
        theseus.replace(ship, 0, 10, modules=2, params=params.model_copy(update={"rate": 1.0}), seed=1)
        backbones.set_layers(donor, [0, 1])
        assert ship(**inputs).logits.allclose(donor(**inputs).logits, atol=1e-6)


def test_each_module_is_replaced_as_often_as_the_rate_says_and_alike_after_a_restart(checkout: Path) -> None:
    source = tiny.of_family("bert", checkout / "encoder", layers=4)
    ship = new_head.for_task(source, tiny.TASK)
    theseus.board(ship, [nn.Linear(1, 1), nn.Linear(1, 1)])
    params, drawn = theseus.Params(replacing="constant", rate=0.3), []
    for step in range(2000):
        theseus.replace(ship, step, 2000, modules=2, params=params, seed=5)
        drawn.append([place.replaced for place in backbones.layers(ship)])
    for first, second in ((0, 1), (2, 3)):
        assert all(row[first] == row[second] for row in drawn), "both layers of a module go together"
    rates = torch.tensor(drawn).float().mean(dim=0)
    assert rates.tolist() == pytest.approx([0.3] * 4, abs=0.03)
    both = sum(row[0] and row[2] for row in drawn) / 2000
    assert both == pytest.approx(0.09, abs=0.02), "modules are drawn one by one"
    theseus.replace(ship, 7, 2000, modules=2, params=params, seed=5)
    assert [place.replaced for place in backbones.layers(ship)] == drawn[7]


def test_only_successors_learn_and_idle_ones_have_gradients_of_zero(checkout: Path) -> None:
    source = tiny.of_family("bert", checkout / "encoder", layers=4)
    ship = new_head.for_task(source, tiny.TASK)
    fresh = new_head.for_task(source, tiny.TASK)
    places = theseus.board(ship, [*backbones.layers(fresh)[:2]])
    (group,) = theseus._successors(ship, 0.1)
    assert {id(p) for p in group["params"]} == {id(p) for place in places for p in place.successor.parameters()}
    places[0].replaced = backbones.layers(ship)[1].replaced = True
    batch = {"input_ids": torch.randint(5, 50, (3, 9)), "attention_mask": torch.ones(3, 9, dtype=torch.int64)}
    task = fits.losses.classification
    total, count = theseus.loss(ship, batch | {"labels": torch.tensor([0, 1, 2])}, task=task)
    total.backward()
    assert int(count) == 3
    assert all(p.grad is not None and p.grad.abs().sum() == 0 for p in places[1].successor.parameters())
    assert sum(float(p.grad.abs().sum()) for p in places[0].successor.parameters()) > 0
