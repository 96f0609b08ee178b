"""Layers as a graph: the losses, gradients and random numbers of layers one by one, and when there is no graph.

Without a GPU a graph is the work itself, done again: what is tested then is everything around it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pipelines.acceleration import layer_graphs, sequence_packing
from pipelines.training import losses, parts
from pipelines.training.batches import collate
from tests.gpu.conftest import CUDA, DEVICE, model, rows

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("calls")]
BATCHES = [range(8), range(8, 16), range(16, 24), range(8), range(8, 16), range(16, 24)]
Gradients = dict[str, torch.Tensor]


@pytest.fixture
def through(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each pass went through a graph."""
    output, by_graph = layer_graphs.LayerGraphs.output, []

    def noted(graphs: Any, *arguments: Any) -> torch.Tensor | None:
        states = output(graphs, *arguments)
        by_graph.append(states is not None)
        return states

    monkeypatch.setattr(layer_graphs.LayerGraphs, "output", noted)
    return by_graph


@contextmanager
def packed(classifier: nn.Module) -> Iterator[layer_graphs.LayerGraphs]:
    """The graphs of the classifier's packed layers, in bf16 on a GPU and in fp32 on a CPU."""
    with sequence_packing.rows(classifier), torch.autocast(DEVICE.type, torch.bfloat16, CUDA):
        forward: Any = next(layer for layer in classifier.base_model.encoder.layer).forward
        yield forward.args[1].graphs


def loss(classifier: nn.Module, chosen: range, seed: int | None = None) -> torch.Tensor:
    here = collate(rows(), np.array(chosen), 0)
    there = parts.on_device(here, DEVICE)
    sequence_packing.expect(classifier, there, here)
    if seed is not None:
        torch.manual_seed(seed)
    return losses.classification(classifier, there)[0]


def gradients(classifier: nn.Module) -> Gradients:
    return {name: p.grad.clone() for name, p in classifier.named_parameters() if p.grad is not None}


def close(a: Gradients, b: Gradients) -> bool:
    """Return whether the gradients are of the same parameters, and equal but for rounding, by the norm of all."""
    first, second = (torch.cat([gradients[name].flatten() for name in sorted(gradients)]) for gradients in (a, b))
    return a.keys() == b.keys() and bool((first - second).norm() < (0.03 if CUDA else 1e-5) * second.norm())


def learned(classifier: nn.Module, graphs: bool, seed: int | None = None) -> list[tuple[float, Gradients]]:
    """The loss and the gradients of each batch."""
    ends = []
    with packed(classifier) as of_layers:
        of_layers.off = not graphs
        for chosen in BATCHES:
            classifier.zero_grad()
            total = loss(classifier, chosen, seed)
            total.backward()
            ends.append((float(total.detach()), gradients(classifier)))
    return ends


@pytest.mark.parametrize("family", ["bert", "roberta", "electra"])
def test_losses_and_gradients_are_those_of_layers_one_by_one(family: str, through: list[bool]) -> None:
    classifier = model(family, dropout=0.0).to(DEVICE).train()
    with_graphs = learned(classifier, graphs=True)
    assert through[-1]
    assert not through[0], "a shape is recorded when it comes again"
    for (loss, same), (expected, those) in zip(with_graphs, learned(classifier, graphs=False), strict=True):
        assert loss == pytest.approx(expected, rel=0.01 if CUDA else 1e-5)
        assert close(same, those)


def test_states_of_all_tokens_are_those_of_layers_one_by_one(through: list[bool]) -> None:
    """Heads for tags and spans read every token, unlike [CLS] alone."""
    encoder = model(dropout=0.0).base_model.to(DEVICE).train()
    ends: list[Gradients] = []
    for graphs in (True, False):
        with packed(encoder) as of_layers:
            of_layers.off = not graphs
            for chosen in BATCHES:
                encoder.zero_grad()
                here = collate(rows(), np.array(chosen), 0)
                there = parts.on_device(here, DEVICE)
                sequence_packing.expect(encoder, there, here)
                there.pop("labels")
                states = encoder(**there).last_hidden_state * there["attention_mask"][:, :, None]
                states.float().pow(3).sum().backward()
                ends.append(gradients(encoder))
    assert through[5]
    assert all(close(same, those) for same, those in zip(ends[:6], ends[6:], strict=True))


def test_dropout_draws_anew_from_the_seed(through: list[bool]) -> None:
    classifier = model(dropout=0.3).to(DEVICE).train()
    with packed(classifier):
        for _ in range(2):
            loss(classifier, range(8), 1).backward()
        first, again, other = (float(loss(classifier, range(8), seed).detach()) for seed in (1, 1, 2))
    assert through == [False, True, True, True, True]
    assert first == again != other


def test_a_graph_does_not_change_the_random_numbers_of_a_step(through: list[bool]) -> None:
    classifier = model(dropout=0.3).to(DEVICE).train()
    ends: list[list[float]] = []
    for busy in (False, True):
        with packed(classifier) as graphs:
            ends.append([])
            for chosen in BATCHES:
                graphs.open = lambda busy=busy: busy or None  # then tokens are rounded, and layers one by one
                ends[-1].append(float(loss(classifier, chosen, 7).detach()))
    assert (any(through[:6]), any(through[6:])) == (True, False)
    assert ends[0] == pytest.approx(ends[1], rel=0.02 if CUDA else 1e-5)


def test_gradients_of_parts_add_up(through: list[bool]) -> None:
    classifier = model(dropout=0.0).to(DEVICE).train()
    sums = []
    for graphs in (True, False):
        with packed(classifier) as of_layers:
            of_layers.off = not graphs
            classifier.zero_grad()
            for chosen in BATCHES:
                loss(classifier, chosen).backward()
            sums.append(gradients(classifier))
    assert through.count(True) >= 3
    assert close(*sums)


def test_two_forward_passes_before_a_backward_do_not_share_a_graph(through: list[bool]) -> None:
    classifier = model(dropout=0.0).to(DEVICE).train()
    sums = []
    for graphs in (True, False):
        with packed(classifier) as of_layers:
            of_layers.off = not graphs
            for _ in range(2):
                loss(classifier, range(8)).backward()
            classifier.zero_grad()
            (loss(classifier, range(8)) * loss(classifier, range(8, 16))).backward()
            sums.append(gradients(classifier))
    assert through[2:4] == [True, False]
    assert close(*sums)


@pytest.mark.parametrize("frozen", ["embeddings", "embeddings and a layer", "weights", "everything below the head"])
def test_what_is_frozen_gets_no_gradient(frozen: str, through: list[bool]) -> None:
    classifier = model(dropout=0.0).to(DEVICE).train()
    for name, p in classifier.named_parameters():
        below = "embeddings" in name or (frozen.endswith("layer") and "layer.0" in name)
        p.requires_grad_("bias" in name if frozen == "weights" else not below)
        if frozen.startswith("everything"):
            p.requires_grad_("classifier" in name)
    with_graphs, without = learned(classifier, graphs=True), learned(classifier, graphs=False)
    assert any(through) != frozen.startswith("everything")
    learning = {name for name, p in classifier.named_parameters() if p.requires_grad}
    for (_, same), (_, those) in zip(with_graphs, without, strict=True):
        assert same.keys() <= learning
        assert close(same, those)


@pytest.mark.parametrize("why", ["a hook", "an adapted part", "states", "no gradient"])
def test_layers_that_somebody_reads_or_changes_are_computed_one_by_one(why: str, through: list[bool]) -> None:
    classifier = model(dropout=0.0).to(DEVICE).train()
    layer = classifier.base_model.encoder.layer[1]
    if why == "a hook":
        layer.register_forward_hook(lambda layer, inputs, output: output)
    if why == "an adapted part":
        layer.attention.self.query = nn.Sequential(layer.attention.self.query)
    if why == "states":
        classifier.base_model.config.output_hidden_states = True
    with packed(classifier), torch.set_grad_enabled(why != "no gradient"):
        for chosen in BATCHES:
            loss(classifier, chosen)
    assert not any(through)


def test_a_graph_that_cannot_be_recorded_is_skipped(
    through: list[bool], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError("the memory is full\nmore")

    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    monkeypatch.setattr(layer_graphs, "_recorded", full)
    classifier = model(dropout=0.0).to(DEVICE).train()
    ends = learned(classifier, graphs=True)
    assert len(ends) == len(BATCHES)
    assert not any(through)
    assert "CUDA graphs of layers are off from here on: the memory is full\n" in capsys.readouterr().err
