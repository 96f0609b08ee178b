"""Heads and rows taken away: what is left computes what it computed beside parts that say nothing."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModel

from pipelines.checkpoints import formats
from pipelines.core.errors import InputError
from pipelines.models import backbones, shapes
from pipelines.models.factorized import Factorized
from tests.support import tiny
from tests.support.kinds import FAMILIES

IDS = torch.tensor([[2, 9, 7, 8, 3], [2, 8, 3, 0, 0]])
INPUTS = {"input_ids": IDS, "attention_mask": (IDS > 0).long()}
WITH_HEADS = [family for family in FAMILIES if backbones.BACKBONES[family].parts or family in shapes.FUSED]


def opened(family: str, folder: Path) -> Any:
    return AutoModel.from_pretrained(tiny.of_family(family, folder)).eval()


@torch.inference_mode()
def states(model: torch.nn.Module) -> torch.Tensor:
    return model(**INPUTS).last_hidden_state


def test_most_families_name_their_parts() -> None:
    named = {"bert", "roberta", "albert", "electra", "distilbert", "mobilebert", "deberta-v2", "modernbert"}
    assert named <= set(WITH_HEADS)


@pytest.mark.parametrize("family", WITH_HEADS)
def test_parts_are_the_layers_that_their_names_say(family: str, checkout: Path) -> None:
    model = opened(family, checkout)
    for number in range(len(backbones.layers(model))):
        for between in (shapes.attention(model, number), shapes.feed_forward(model, number)):
            for linear, blocks in between.before:
                assert linear.out_features == blocks * between.after.in_features
    assert shapes.heads(model)[0] == 2
    assert shapes.rows(model)[0] == 64


@pytest.mark.parametrize(
    ("family", "what"),
    [
        (family, what)
        for family in WITH_HEADS
        for what in ("heads", "rows")
        if (family, what) != ("deberta-v2", "heads")
    ],  # its positions are projected for all heads
)
def test_a_model_without_a_part_is_one_whose_part_says_nothing(family: str, what: str, checkout: Path) -> None:
    whole, fewer = opened(family, checkout / "a"), opened(family, checkout / "a")
    before = states(fewer)
    with torch.no_grad():
        if what == "heads":
            shapes.attention(whole, 0).after.weight[:, : shapes.head_size(whole)] = 0  # of head 0
            shapes.keep_heads(fewer, 0, [1])
        else:
            shapes.feed_forward(whole, 0).after.weight[:, 5:40] = 0
            shapes.keep_rows(fewer, 0, [*range(5), *range(40, 64)])
    assert getattr(shapes, what)(fewer)[0] == {"heads": 1, "rows": 29}[what]
    assert states(fewer).allclose(states(whole), atol=1e-6)
    assert not states(fewer).equal(before)
    shapes.note(fewer)
    built = AutoModel.from_config(AutoConfig.for_model(**fewer.config.to_dict()))
    shapes.take(built)
    built.load_state_dict(fewer.state_dict())
    assert states(built.eval()).equal(states(fewer))


def test_pruned_shapes_are_in_the_config_where_it_has_keys(checkout: Path) -> None:
    """Every layer has as many rows: that is a native model. Lists of shapes follow the layers that stay."""
    model = opened("bert", checkout / "bert")
    for number in (0, 1):
        shapes.keep_rows(model, number, [3, 4, 7])
    shapes.note(model)
    assert (shapes.of(model), model.config.intermediate_size) == ({}, 3)
    shapes.keep_heads(model, 1, [0])
    shapes.note(model)
    assert shapes.of(model) == {"heads": [2, 1]}
    with backbones.only_layers(model, [1]):
        assert shapes.of(model) == {"heads": [1]}
    assert shapes.of(model) == {"heads": [2, 1]}
    backbones.set_layers(model, [1])
    assert shapes.of(model) == {"heads": [1]}


def test_impossible_removals_fail_in_one_sentence(checkout: Path) -> None:
    model = opened("bert", checkout / "bert")
    with pytest.raises(InputError, match="layer 0: all 2 heads would be removed; at least one must stay"):
        shapes.keep_heads(model, 0, [])
    with pytest.raises(InputError, match="layer 0 has heads 0 to 1; there is no head 2"):
        shapes.keep_heads(model, 0, [2])
    with pytest.raises(InputError, match="layer 1: all 64 rows would be removed; at least one must stay"):
        shapes.keep_rows(model, 1, [])
    with pytest.raises(InputError, match="bilstm family are not made of separate linear layers"):
        shapes.attention(opened("bilstm", checkout / "bilstm"), 0)


@pytest.mark.parametrize("family", [*FAMILIES, "bilstm"])
def test_layers_of_a_group_share_what_they_have_in_common(family: str, checkout: Path) -> None:
    model = opened(family, checkout)
    lowest, *others = [dict(layer.named_parameters()) for layer in backbones.layers(model)]
    twice = sum(p.numel() for other in others for name, p in other.items() if name in lowest)
    whole = sum(p.numel() for p in model.parameters())
    shapes.add(model, "groups", [0] * len(backbones.layers(model)))
    shared = sum(p.numel() for p in model.parameters())
    assert whole - shared == twice
    assert twice > 0 or family == "albert", "ALBERT's one group is shared already"
    assert sum(tensor.numel() for tensor in formats.distinct(model).values()) < whole or family == "albert"
    with pytest.raises(InputError, match="groups has 3 numbers"):
        shapes.add(model, "groups", [0, 0, 0])


@pytest.mark.parametrize("family", [*FAMILIES, "bilstm"])
def test_two_matrices_of_full_rank_are_the_table(family: str, checkout: Path) -> None:
    model = opened(family, checkout)
    before, table = states(model), model.get_input_embeddings().weight.detach().clone()
    shapes.add(model, "embedding", table.shape[1])
    embeddings = model.get_input_embeddings()
    assert isinstance(embeddings, Factorized)
    assert embeddings.fill(table) == pytest.approx(1)
    assert states(model).allclose(before, atol=1e-4)
