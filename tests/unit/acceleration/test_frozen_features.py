"""Frozen layers, run once: the same training as with them, in any family, and the model whole again afterwards."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from pipelines.acceleration import frozen_features
from pipelines.checkpoints import new_head
from pipelines.core import paths
from pipelines.core.resources import Resources
from pipelines.entries.finetune import Finetune
from pipelines.models import backbones
from pipelines.models.batch import Batch
from pipelines.training import losses, strategies
from pipelines.training.batches import Encoded, RowBatches
from pipelines.training.distributed import fitting
from tests.support import tiny
from tests.support.covering import pairwise
from tests.support.fits import weights
from tests.support.kinds import FAMILIES, TASKS, encoded

PLAIN = [family for family in FAMILIES if backbones.BACKBONES[family].plain]
ENTRY = {"data": "d", "encoder": "e", "epochs": 3, "batch_size": 8, "learning_rate": 1e-3}


PLACE = paths.frozen_features("finetune", "x")


def trained(model: torch.nn.Module, kind: str, entry: Finetune, data: Encoded, limit: float) -> tuple[dict, list, str]:
    """Weights and curve, and what of a batch the model was given: ids, states or vectors."""
    curve: list[float] = []
    inputs_seen: set[str] = set()
    groups = partial(strategies.groups, params=entry)
    groups(model)

    def loss(model: torch.nn.Module, batch: Batch, step: int) -> losses.Sums:
        inputs_seen.update({"input_ids", "inputs_embeds", "pooled"} & set(batch))
        return losses.for_kind(kind)(model, batch, step)

    with fitting("finetune", "x", Resources(cache_gb=limit)) as fit:
        batches, add = RowBatches(data, 8, entry.epochs, 1, 0), lambda _, at: curve.append(at["loss"])
        fit(model, loss, batches, entry, groups=groups, kind=kind, report=add)
    (name,) = inputs_seen
    return weights(model), curve, name


READ = {  # what reads the states -> the kind of rows, the head and its pooling
    "a native head": ("pair", "native"),
    "a head of ours": ("pair", "linear", "compare"),
    "a head of spans": ("span", "native"),
    "a head of tags": ("tagging", "native"),
}


@pytest.mark.parametrize(("reader", "family", "strategy"), pairwise([*READ], PLAIN, ("top_k", "frozen")))
def test_frozen_features_give_the_same_training(reader: str, family: str, strategy: str, checkout: Path) -> None:
    kind, *head = READ[reader]
    source = tiny.of_family(family, checkout / "encoder")
    data = encoded(kind, checkout / "encoded", source)
    entry = Finetune(**ENTRY, strategy=strategy, top_k=1, optimizer="sgd")
    torch.manual_seed(2)
    model = new_head.for_task(source, TASKS[kind], *head)
    alone = head[0] == "linear" and strategy == "frozen"  # that head reads one vector a row
    if alone:
        model.dropout.p = 0.0  # it would fall on other numbers
    start = weights(model)
    config = model.config.to_json_string()
    plain, curve, input_name = trained(model, kind, entry, data, limit=0)
    assert input_name == "input_ids"
    model.load_state_dict(start)
    cached, curve_cached, input_name = trained(model, kind, entry, data, limit=1)
    assert input_name == ("pooled" if alone else "inputs_embeds")
    assert curve_cached == pytest.approx(curve, rel=2e-3)
    assert plain.keys() == cached.keys()
    assert all(torch.allclose(cached[name], tensor, atol=1e-3) for name, tensor in plain.items())
    assert any(not tensor.equal(start[name]) for name, tensor in cached.items())
    assert model.config.to_json_string() == config
    assert not list(PLACE.iterdir())


def test_features_are_not_cached_without_frozen_layers_or_when_a_head_reads_below(checkout: Path) -> None:
    source = tiny.of_family("bert", checkout / "encoder")
    data = encoded("single", checkout / "encoded", source)
    for head, features, strategy in (("native", "last", "full"), ("bilstm", "second_to_last", "frozen")):
        model = new_head.for_task(source, TASKS["single"], head, "cls", features)
        strategies.groups(model, Finetune(**ENTRY, strategy=strategy))
        batches = RowBatches(data, 8, 1, 1, 0)
        with frozen_features.kept(model, batches, PLACE, Resources(cache_gb=1)) as (inputs, _):
            assert inputs is batches


def test_states_too_large_to_cache_are_reported(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    source = tiny.of_family("bert", checkout / "encoder")
    model = new_head.for_task(source, TASKS["single"])
    strategies.groups(model, Finetune(**ENTRY, strategy="frozen"))
    batches = RowBatches(encoded("single", checkout / "encoded", source), 8, 1, 1, 0)
    with frozen_features.kept(model, batches, PLACE, Resources(cache_gb=1e-9)) as (inputs, _):
        assert inputs is batches
    assert "2 frozen layers would take 0.0 GB, more than resources.cache_gb; not stored" in capsys.readouterr().err


def test_states_too_large_for_float16_are_reported_and_not_stored(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    source = tiny.of_family("bert", checkout / "encoder")
    model = new_head.for_task(source, TASKS["single"])
    strategies.groups(model, Finetune(**ENTRY, strategy="top_k", top_k=1))
    with torch.no_grad():
        backbones.layers(model)[0].output.LayerNorm.weight.mul_(1e5)
    batches = RowBatches(encoded("single", checkout / "encoded", source), 8, 1, 1, 0)
    with frozen_features.kept(model, batches, PLACE, Resources(cache_gb=1)) as (inputs, _):
        assert inputs is batches
        assert len(backbones.layers(model)) == 2
    assert capsys.readouterr().err.endswith("1 frozen layers have numbers too large for float16; not stored\n")
    assert not list(PLACE.iterdir())


@pytest.mark.parametrize("pooling", ["cls", "mean", "compare"])
@pytest.mark.parametrize("features", ["last", "embeddings", "second_to_last"])
def test_a_head_that_reads_one_vector_is_trained_on_that(pooling: str, features: str, checkout: Path) -> None:
    source = tiny.of_family("modernbert", checkout / "encoder")
    data = encoded("pair", checkout / "encoded", source)
    entry = Finetune(**ENTRY, strategy="frozen", optimizer="sgd")
    torch.manual_seed(2)
    model = new_head.for_task(source, TASKS["pair"], "mlp", pooling, features)
    model.dropout.p = 0.0
    start = weights(model)
    plain, curve, input_name = trained(model, "pair", entry, data, limit=0)
    assert input_name == "input_ids"
    model.load_state_dict(start)
    trained_weights, curve_kept, input_name = trained(model, "pair", entry, data, limit=1)
    assert input_name == "pooled"
    assert curve_kept == pytest.approx(curve, rel=1e-4)
    assert all(torch.allclose(trained_weights[name], tensor, atol=1e-5) for name, tensor in plain.items())
    assert any(not tensor.equal(start[name]) for name, tensor in trained_weights.items())
    assert not list(PLACE.iterdir())


def test_states_are_those_of_the_last_frozen_layer(checkout: Path) -> None:
    source = tiny.encoder(checkout / "encoder", layers=3)
    model = new_head.for_task(source, tiny.TASK, "linear")
    strategies.groups(model, Finetune(**ENTRY, strategy="top_k", top_k=1))
    data = encoded("single", checkout / "encoded", source)
    batches = RowBatches(data, 8, 1, 1, 0)
    model.eval()
    plain = batches[0]
    expected = model.encoder(**backbones.inputs(model, plain), output_hidden_states=True).hidden_states[2]
    with frozen_features.kept(model, batches, PLACE, Resources(cache_gb=1)) as (inputs, _):
        cached_batch = inputs[0]
        assert len(backbones.layers(model)) == 1
    inside = plain["attention_mask"].bool()
    assert np.allclose(cached_batch["inputs_embeds"][inside], expected[inside].detach(), atol=2e-3)
    assert cached_batch["labels"].equal(plain["labels"])
    assert "input_ids" not in cached_batch


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_an_evaluation_during_training_sees_the_whole_model(family: str, checkout: Path) -> None:
    source = tiny.of_family(family, checkout / "encoder")
    data = encoded("single", checkout / "encoded", source)
    entry = Finetune(**ENTRY, strategy="top_k", top_k=1, optimizer="sgd")
    sums: dict[float, list[float]] = {}
    for limit in (0, 1):
        torch.manual_seed(2)
        model = new_head.for_task(source, TASKS["single"])
        batches = RowBatches(data, 8, entry.epochs, 1, 0)
        plain, groups = batches[0], partial(strategies.groups, params=entry)
        groups(model)

        def logits(model: torch.nn.Module, plain: dict = plain) -> dict[str, float]:
            assert len(backbones.layers(model)) == 2
            return {"sum": float(model(**backbones.inputs(model, plain)).logits.abs().sum())}

        points: list[dict[str, float]] = []
        collect = partial(lambda points, _, at: points.append(at), points)
        with fitting("finetune", "x", Resources(cache_gb=limit)) as fit:
            options = {"groups": groups, "kind": "single", "report": collect, "watch": logits, "select": "sum"}
            fit(model, losses.for_kind("single"), batches, entry, **options)
        sums[limit] = [at["sum"] for at in points if "sum" in at]
    assert len(sums[0]) > 1
    assert sums[1] == pytest.approx(sums[0], rel=2e-3)
    assert len(set(sums[0])) > 1


def test_disk_space_for_the_states_is_reserved_before_they_are_computed(tmp_path: Path) -> None:
    """A file with holes would end the process by SIGBUS where the disk is full; a full disk is an OSError here."""
    states = frozen_features.reserved(tmp_path / "states", np.float16, (1000, 64))
    assert states.shape == (1000, 64)
    assert (tmp_path / "states").stat().st_blocks * 512 >= states.nbytes
