"""Heads taken away: what is left computes what it computed beside heads that say nothing."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModel

from pipelines.core.errors import InputError
from pipelines.models import attention_heads, backbones
from tests.support import tiny
from tests.support.kinds import FAMILIES

WITH_HEADS = [family for family in FAMILIES if backbones.BACKBONES[family].parts]


def opened(family: str, folder: Path) -> torch.nn.Module:
    return AutoModel.from_pretrained(tiny.of_family(family, folder)).eval()


def test_most_families_name_their_parts() -> None:
    assert {"bert", "roberta", "albert", "electra", "distilbert", "mobilebert", "deberta-v2"} <= set(WITH_HEADS)


@pytest.mark.parametrize("family", WITH_HEADS)
def test_parts_are_the_layers_that_their_names_say(family: str, checkout: Path) -> None:
    model = opened(family, checkout)
    parts = backbones.parts(model, 0)
    assert parts["query"].weight.shape == parts["key"].weight.shape
    assert parts["value"].out_features == parts["output"].in_features
    assert parts["up"].out_features == parts["down"].in_features
    assert attention_heads.count(model, 0) == 2


@pytest.mark.parametrize("family", WITH_HEADS)
def test_a_model_without_a_head_is_one_whose_head_says_nothing(family: str, checkout: Path) -> None:
    ids = torch.tensor([[2, 9, 7, 8, 3], [2, 8, 3, 0, 0]])
    inputs = {"input_ids": ids, "attention_mask": (ids > 0).long()}
    whole, fewer = opened(family, checkout / "a"), opened(family, checkout / "a")
    with torch.inference_mode():
        before = fewer(**inputs).last_hidden_state
        width = attention_heads.size(whole)
        backbones.parts(whole, 0)["output"].weight[:, :width] = 0  # of head 0
        attention_heads.remove(fewer, 0, {0})
        silent, left = whole(**inputs).last_hidden_state, fewer(**inputs).last_hidden_state
    assert attention_heads.count(fewer, 0) == 1
    assert left.allclose(silent, atol=1e-6)
    assert not left.equal(before)


def test_what_cannot_go_is_one_sentence(checkout: Path) -> None:
    model = opened("bert", checkout / "bert")
    with pytest.raises(InputError, match="all of its 2 heads are to go"):
        attention_heads.remove(model, 0, {0, 1})
    with pytest.raises(InputError, match="heads 0 to 1; there is no head 2"):
        attention_heads.remove(model, 0, {2})
    with pytest.raises(InputError, match="bilstm family are not made of separate linear layers"):
        attention_heads.remove(opened("bilstm", checkout / "bilstm"), 0, {0})
