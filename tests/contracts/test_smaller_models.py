"""Every compression method on every family that it claims: made, saved, opened again, predicting the same."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pipelines.checkpoints import folder as model_folder
from pipelines.core import json_file, plugins
from pipelines.core.errors import InputError, UsageError
from pipelines.core.resources import Resources
from pipelines.core.task import Task
from pipelines.inference.predictor import Predictor
from pipelines.inference.runtimes import Torch
from pipelines.measurement import cost
from pipelines.models import backbones
from pipelines.training.distributed import fitting
from tests.support import compressed, kinds
from tests.support.covering import pairwise

METHODS = compressed.claiming()
EVERY = [(name, family) for name in METHODS for family in compressed.families(name)]


def is_claimed(name: str, family: str, kind: str) -> bool:
    return family in compressed.families(name) and compressed.can(family, kind)


def check_it_answers_as_before(model: torch.nn.Module, folder: Path, kind: str) -> None:
    """The model in memory and the one in its folder, by the one predictor and with its own tokenizer."""
    in_memory = Predictor(Torch.of(model, Task.load(folder)), folder)
    compressed.check_answers(Predictor.load(folder), in_memory, kind)


def test_there_are_methods_that_claim_families() -> None:
    claimed = {"drop_layers", "prune_heads", "prune_ffn", "prune_magnitude", "share_layers", "factorize_embeddings"}
    assert claimed | {"prune_vocab"} <= {*METHODS}
    assert all(family in backbones.BACKBONES for _, family in EVERY)


@pytest.mark.parametrize(
    ("name", "family", "kind"), pairwise(METHODS, [*backbones.BACKBONES], [*kinds.TASKS], where=is_claimed)
)
def test_a_smaller_model_is_saved_and_opened_again(name: str, family: str, kind: str, checkout: Path) -> None:
    folder, out = compressed.teacher(family, kind, checkout / "teacher"), checkout / "out"
    model, facts = compressed.compressed(name, folder, kind, out)
    check_it_answers_as_before(model, out, kind)
    assert facts
    before, after = cost.size(folder), cost.size(out)
    if name in compressed.SAME_SIZE:
        assert cost.zeros(out) > cost.zeros(folder) + 1000
    else:
        assert after["parameters"] < before["parameters"]
        assert after["size_bytes"] < before["size_bytes"]
    numbers = np.concatenate([tensor.flatten().float().numpy() for tensor in model.state_dict().values()])
    assert np.isfinite(numbers).all()


@pytest.mark.parametrize("family", ["bert", "distilbert", "modernbert"])
@pytest.mark.parametrize(
    ("name", "more", "sizes"),
    [
        ("prune_heads", {"share": 0.25, "rounds": 2}, {"heads": {1, 2}}),
        ("prune_ffn", {"share": 0.5, "among": "model", "least": 8, "rounds": 3}, {"intermediate": set()}),
    ],
)
def test_layers_of_a_pruned_model_may_have_different_sizes(
    name: str, more: Any, sizes: dict[str, set[int]], family: str, checkout: Path
) -> None:
    """config.json notes the sizes of each layer; what transformers' classes cannot say, its card says."""
    folder, out = compressed.teacher(family, "single", checkout / "teacher"), checkout / "out"
    model, says = compressed.compressed(name, folder, "single", out, **more)
    check_it_answers_as_before(model, out, "single")
    (key,) = sizes
    noted = json_file.mapping(out / "config.json")["bertline_reshaped"]
    assert noted == says
    assert len({*noted[key]}) == 2
    assert {*noted[key]} == sizes[key] or min(noted[key]) >= 8
    assert "transformers does not support the format of its reshaped weights" in (out / "README.md").read_text()
    with pytest.raises(InputError, match="fine-tuning cannot start from weights in the format reshaped"):
        model_folder.check_fit(out, model.config.vocab_size, 32)


@pytest.mark.parametrize("name", ["drop_layers", "share_layers", "factorize_embeddings", "prune_magnitude"])
def test_a_smaller_model_can_learn_from_its_teacher_without_labels(name: str, checkout: Path) -> None:
    """With `soft: 1` other labels make the same model, and the one that labels make is another."""
    folder = compressed.teacher("bert", "single", checkout / "teacher")
    digests = {}
    for key, soft, shift in (("right", 1.0, 0), ("wrong", 1.0, 1), ("labels", 0.0, 0)):
        method = plugins.load(compressed.METHODS, name)
        with fitting("compress", key, Resources()) as fit:
            context = compressed.context(folder, fit, "single", checkout, key)
            rows = replace(context.data.train, labels=np.roll(context.data.train.labels, shift))
            context = replace(context, data=replace(context.data, train=rows))
            digests[key] = backbones.digest(
                method.compress(context, method.Params(**compressed.options(name, soft=soft)))
            )
    assert digests["right"] == digests["wrong"]
    assert digests["right"] != digests["labels"]


@pytest.mark.parametrize("name", METHODS)
def test_a_family_that_a_method_lacks_fails_in_one_sentence(name: str, checkout: Path) -> None:
    others = [family for family in (*kinds.FAMILIES, "bilstm") if family not in compressed.families(name)]
    if not others:
        assert {*compressed.families(name)} == {*backbones.BACKBONES}
        return
    for family in others:
        folder = compressed.teacher(family, "single", checkout / family)
        message = (
            rf"params\.yaml: compress\.out\.method: {name} does not take the {family} family of {family}; it takes "
        )
        with pytest.raises(UsageError, match=message):
            compressed.compressed(name, folder, "single", checkout / "out")
        assert not (checkout / "out").exists()


@pytest.mark.parametrize("name", METHODS)
def test_weights_in_int8_are_not_changed(name: str, checkout: Path) -> None:
    folder = compressed.teacher("bert", "single", checkout / "teacher")
    compressed.compressed("dynamic_int8", folder, "single", checkout / "int8")
    with pytest.raises(
        UsageError, match=f"{name} cannot change the weights of int8, which are int8; compress the model"
    ):
        compressed.compressed(name, checkout / "int8", "single", checkout / "out")
