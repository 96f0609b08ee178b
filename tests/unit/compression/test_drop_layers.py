"""Which layers go: the ways of Sajjad et al. 2020, section 3, for their twelve layers."""

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from pipelines.checkpoints import folder as model_folder
from pipelines.compression.context import Data
from pipelines.compression.methods import drop_layers
from pipelines.core import params
from pipelines.core.errors import UsageError
from pipelines.models import backbones
from tests.support import compressed, kinds


@pytest.mark.parametrize(
    ("which", "count", "dropped"),
    [  # the paper numbers layers from 1
        ("top", 4, {9, 10, 11, 12}),
        ("top", 6, {7, 8, 9, 10, 11, 12}),
        ("bottom", 4, {1, 2, 3, 4}),
        ("even", 4, {6, 8, 10, 12}),
        ("odd", 4, {5, 7, 9, 11}),
        ("odd", 6, {1, 3, 5, 7, 9, 11}),
        ("symmetric", 4, {5, 6, 7, 8}),
        ("symmetric", 6, {4, 5, 6, 7, 8, 9}),
    ],
)
def test_the_layers_of_the_paper_go(which: str, count: int, dropped: set[int]) -> None:
    assert {i + 1 for i in range(12)} - {i + 1 for i in drop_layers.kept(12, count, which)} == dropped


def test_more_layers_than_there_are_fails_in_one_sentence() -> None:
    with pytest.raises(UsageError, match="layers: 12 to drop of 12; at least one must stay"):
        drop_layers.kept(12, 12, "top")
    with pytest.raises(UsageError, match="layers: 7 to drop; of 12 layers 6 are even"):
        drop_layers.kept(12, 7, "even")


def test_contradictory_options_fail_in_one_sentence() -> None:
    def read(**values: Any) -> drop_layers.Params:
        return params.parse(drop_layers.Params, values, "compress.x")

    assert read(which="contribution", threshold=0.9).layers is None
    for wrong in ({"which": "contribution", "layers": 2}, {"which": "contribution", "layers": 2, "threshold": 0.9}):
        with pytest.raises(UsageError, match=r"compress\.x: which: contribution takes a threshold, such as 0\.95"):
            read(**wrong)
    for wrong in ({}, {"layers": 2, "threshold": 0.9}):
        with pytest.raises(UsageError, match="which: top takes layers, not a threshold"):
            read(**wrong)
    with pytest.raises(UsageError, match=r"compress\.x\.layers: 0: input should be greater than or equal to 1"):
        read(layers=0)


def test_layers_that_change_little_go() -> None:
    assert drop_layers.contributing([0.5, 0.96, 0.9, 0.99], 0.95) == [0, 2]
    with pytest.raises(
        UsageError, match=r"threshold: 0\.99 drops none of the layers; their similarities are 0\.5000, 0"
    ):
        drop_layers.contributing([0.5, 0.96], 0.99)
    with pytest.raises(UsageError, match=r"threshold: 0\.4 drops all 2 of the layers"):
        drop_layers.contributing([0.5, 0.96], 0.4)


@pytest.mark.parametrize("family", ["bert", "xlnet", "distilbert", "mobilebert", "deberta-v2"])
@pytest.mark.parametrize("kind", ["single", "choice"])
def test_similarities_by_numpy(kind: str, family: str, checkout: Path) -> None:
    """From the hidden states that the family itself returns; all rows are of one batch, or of 24 batches of one."""
    model, data = kinds.model_and_rows(kind, family, checkout)
    context: Any = SimpleNamespace(teacher=model, data=Data(data, None, 0), seed=1)
    similarities = drop_layers.similarities(context, 24)
    sums = np.zeros(2)
    with torch.no_grad():
        for batch in Data(data, None, 0).once(None, 1, 1):
            flat = {name: tensor.flatten(0, -2) for name, tensor in backbones.inputs(model, batch).items()}
            states = backbones.encoder(model)(**flat, output_hidden_states=True).hidden_states
            assert len(states) == 3
            first = [state[:, 0].double().numpy() for state in states]
            for i, (x, y) in enumerate(pairwise(first)):
                cosine = (x * y).sum(-1) / np.linalg.norm(x, axis=-1) / np.linalg.norm(y, axis=-1)
                sums[i] += cosine.mean() / 24
    assert similarities == pytest.approx(sums.tolist(), abs=1e-4)


def test_modernberts_first_layer_has_no_norm_that_another_could_use(checkout: Path) -> None:
    folder = compressed.teacher("modernbert", "single", checkout / "teacher")
    with pytest.raises(UsageError, match="which: bottom drops ModernBERT's first layer; it has no norm of its own"):
        compressed.compressed("drop_layers", folder, "single", checkout / "out", which="bottom")


def test_a_head_keeps_its_weights_of_the_layers_that_stay(checkout: Path) -> None:
    folder = compressed.teacher("bert", "single", checkout / "teacher", 4, "linear", features="weighted_sum")
    teacher, _ = model_folder.load_tuned(folder)
    teacher.weights = torch.nn.Parameter(torch.arange(5.0))
    context: Any = SimpleNamespace(teacher=teacher, found={})
    params = drop_layers.Params(layers=2, which="symmetric", epochs=0)
    assert drop_layers.compress(context, params).weights.tolist() == [0.0, 1.0, 4.0]
    assert context.found == {"layers": [0, 3]}
    out = checkout / "out"
    model, _ = compressed.compressed("drop_layers", folder, "single", out, layers=2, epochs=0)
    assert model_folder.load_tuned(out)[0].weights.equal(model.weights)


@pytest.mark.parametrize("features", ["sum_last_four", "concat_last_four"])
def test_a_head_that_reads_more_layers_than_stay_is_one_sentence(features: str, checkout: Path) -> None:
    folder = compressed.teacher("bert", "single", checkout / "teacher", 5, "linear", features=features)
    message = f"compress: the teacher's head reads {features}, and [23] layers remain; at least 4 must"
    for name in ("drop_layers", "soft_targets"):
        with pytest.raises(UsageError, match=message):
            compressed.compressed(name, folder, "single", checkout / name, layers=3 if name == "drop_layers" else 2)
    compressed.compressed("drop_layers", folder, "single", checkout / "four", layers=1, epochs=0)
