"""Every acceleration goes on where it applies, is told in one line, and comes off again, whatever happens."""

from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from pipelines.acceleration import apply, attention_kernels, onednn_linear
from pipelines.checkpoints import new_head
from pipelines.core.resources import Resources
from pipelines.entries.finetune import Finetune
from pipelines.training import strategies
from pipelines.training.batches import RowBatches
from tests.support import tiny
from tests.support.fits import rows, weights
from tests.support.kinds import TASKS, encoded

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU needs fewer of them")
PLACE = Path("states")
ENTRY = {"data": "d", "encoder": "e", "top_k": 1}
ALL_BUT_FROZEN = ("cls-only last layer", "sequence packing", "embedding subset")
STEPS = ("oneDNN linear layers", "fast dropout", "attention kernels")


@pytest.fixture(autouse=True)
def on_such_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn_linear, "faster", lambda: True)


def model_and_batches(checkout: Path, strategy: str, kind: str = "single") -> tuple[nn.Module, RowBatches]:
    source = tiny.of_family("bert", checkout / "encoder")
    model = new_head.for_task(source, TASKS[kind])
    strategies.groups(model, Finetune(**ENTRY, strategy=strategy))
    data = rows(vocab=30) if kind == "single" else encoded(kind, checkout / "encoded", source)
    return model, RowBatches(data, 8, 1, 1, 0)


def changed(model: nn.Module) -> set[str]:
    """Modules that are computed otherwise than their class says, or that are not transformers' own."""
    ours = {name for name, part in model.named_modules() if "forward" in vars(part)}
    return ours | {name for name, part in model.named_modules() if type(part).__module__.startswith("pipelines.accel")}


@pytest.mark.parametrize(
    ("strategy", "kind", "setting", "names"),
    [
        ("full", "single", "single", ALL_BUT_FROZEN),
        ("full", "tagging", "tagging", ("sequence packing", "embedding subset")),
        ("top_k", "single", "single", ("frozen features", "cls-only last layer")),  # the one layer that is left
        ("top_k", "tagging", "tagging", ("frozen features", "sequence packing")),
        ("full", "single", "", ("sequence packing",)),
    ],
)
def test_accelerations_switch_on_in_order_and_off_again(
    strategy: str, kind: str, setting: str, names: tuple[str, ...], checkout: Path
) -> None:
    model, batches = model_and_batches(checkout, strategy, kind)
    before, kernel = weights(model), model.config._attn_implementation
    modules = {name: type(part) for name, part in model.named_modules()}
    with pytest.raises(ZeroDivisionError), apply.to_rows(model, batches, setting, PLACE, Resources()) as on:
        assert on.names == names
        assert (on.batches is batches) == ("frozen features" not in names)
        with apply.to_steps(model, "fp32", on.names) as steps:
            assert steps.names == names + STEPS
            assert changed(model)
            steps.attention.choose({"input_ids": torch.zeros(2, 40)})
            assert model.config._attn_implementation == attention_kernels.PLAIN
            _ = 1 / 0
    assert not changed(model)
    assert {name: type(part) for name, part in model.named_modules()} == modules
    assert model.config._attn_implementation == kernel
    assert all(tensor.equal(before[name]) for name, tensor in model.state_dict().items())


def test_with_acceleration_off_the_model_is_unchanged(checkout: Path) -> None:
    model, batches = model_and_batches(checkout, "top_k")
    watch = partial(lambda model: {"accuracy": 1.0})
    with apply.to_rows(model, batches, "single", PLACE, Resources(acceleration=False), watch) as on:
        assert (on.batches, on.watch, on.names) == (batches, watch, None)
        with apply.to_steps(model, "bf16", on.names) as steps:
            assert steps.names is None
            assert not changed(model)
            steps.attention.choose({"input_ids": torch.zeros(2, 40)})
            assert model.config._attn_implementation == "sdpa"
    assert not PLACE.exists()


def test_accelerations_are_listed_in_one_line() -> None:
    assert apply.told(None) == "acceleration: off"
    assert apply.told(()) == "acceleration: nothing applies"
    assert apply.told(("sequence packing", "fast dropout")) == "acceleration: sequence packing, fast dropout"
