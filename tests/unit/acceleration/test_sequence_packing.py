"""Sequence packing: the same scores and gradients as padded rows, with fewer places to work on."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipelines.acceleration import cls_only, sequence_packing
from pipelines.checkpoints import new_head
from pipelines.models import backbones
from pipelines.training import losses
from pipelines.training.batches import collate
from tests.support import tiny
from tests.support.kinds import TASKS, encoded, model_and_rows

PLAIN = [family for family, row in backbones.BACKBONES.items() if row.plain]


def places_of(places_seen: list[int], _: torch.nn.Module, __: tuple, states: torch.Tensor) -> None:
    places_seen.append(states.shape[0] * states.shape[1])


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", ["single", "pair", "span", "tagging"])
@pytest.mark.parametrize("family", PLAIN)
def test_scores_and_gradients_are_those_of_padded_rows(family: str, kind: str, attention: str, checkout: Path) -> None:
    model, data = model_and_rows(kind, family, checkout)
    model.set_attn_implementation(attention)
    batch, loss = collate(data, np.arange(10), 0), losses.for_kind(kind)
    results = []
    for together in (False, True):
        model.zero_grad()
        places_seen: list[int] = []
        hook = backbones.layers(model)[0].register_forward_hook(partial(places_of, places_seen))
        if together:
            with sequence_packing.rows(model):
                total = loss(model, batch)[0]
        else:
            total = loss(model, batch)[0]
        total.backward()
        hook.remove()
        results.append(
            (
                float(total.detach()),
                places_seen[0],
                {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None},
            )
        )
    (padded, places, gradients), (packed, fewer, same) = results
    assert fewer < places
    assert packed == pytest.approx(padded, rel=1e-4)
    assert all(torch.allclose(same[name], gradient, atol=1e-4) for name, gradient in gradients.items())
    assert "forward" not in vars(backbones.layers(model)[0])


def test_it_goes_with_a_last_layer_for_the_first_token(checkout: Path) -> None:
    source = tiny.of_family("modernbert", checkout / "encoder")
    data = encoded("single", checkout / "encoded", source)
    torch.manual_seed(2)
    model = new_head.for_task(source, TASKS["single"]).eval()
    inputs = backbones.inputs(model, collate(data, np.arange(10), 0))
    expected = model(**inputs).logits
    with cls_only.only(model, "single"), sequence_packing.rows(model):
        assert torch.allclose(model(**inputs).logits, expected, atol=1e-5)


@pytest.mark.parametrize("family", PLAIN)
def test_states_between_the_layers_are_those_of_padded_rows(family: str, checkout: Path) -> None:
    source = tiny.of_family(family, checkout / "encoder")
    data = encoded("pair", checkout / "encoded", source)
    encoder = backbones.encoder(new_head.for_task(source, TASKS["pair"]).eval())
    batch = collate(data, np.arange(10), 0)
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    inside = batch["attention_mask"].bool()
    padded = encoder(**inputs, output_hidden_states=True).hidden_states
    places_seen: list[int] = []
    backbones.layers(encoder)[0].register_forward_hook(partial(places_of, places_seen))
    with sequence_packing.rows(encoder):
        packed = encoder(**inputs, output_hidden_states=True).hidden_states
    assert places_seen[0] < inside.numel()
    assert len(packed) == len(padded) == len(backbones.layers(encoder)) + 1
    for states, same in zip(padded, packed, strict=True):
        assert torch.allclose(states[inside], same[inside], atol=1e-5)


def test_rows_of_one_length_stay_where_they_are(checkout: Path) -> None:
    model = new_head.for_task(tiny.of_family("bert", checkout / "encoder"), TASKS["single"]).eval()
    places_seen: list[int] = []
    backbones.layers(model)[0].register_forward_hook(partial(places_of, places_seen))
    with sequence_packing.rows(model):
        model(input_ids=torch.ones(4, 7, dtype=torch.int64), attention_mask=torch.ones(4, 7, dtype=torch.int64))
    assert places_seen == [28]


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40))
def test_every_row_has_one_place(lengths: list[int]) -> None:
    inside = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    places = sequence_packing._Places(inside, hidden=32)
    states = torch.arange(inside.numel()).reshape(*inside.shape, 1) + 1.0
    moved = places.together(states)
    assert places.apart(moved).equal(states * inside[:, :, None])
    assert places.same.any(dim=-1).all(), "a place that sees none would have no softmax"
    sees = places.same[:, 0].sum(dim=-1).flatten()[places.spots[inside]]
    assert sees.tolist() == [length for length in lengths for _ in range(length)]


def test_the_width_is_the_one_with_the_least_work() -> None:
    def shape(lengths: list[int], hidden: int) -> tuple[int, int]:
        return sequence_packing._shape(lengths, sequence_packing._least_work(lengths, hidden))

    assert shape([40, 40, 20, 20, 20, 20], hidden=384) == (4, 40)
    assert shape([50, 30, 20, 20, 20, 20], hidden=384) == (2, 80)
    assert shape([300, 300], hidden=384) == (2, 304)  # a multiple of 8
    # wide bins have less padding, but a narrow model has more to do in them than that saves
    assert shape([300, 100, 140, 170], hidden=768) == (2, 400)
    assert shape([300, 100, 140, 170], hidden=8) == (3, 304)
