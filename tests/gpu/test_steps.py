"""Training steps on a GPU: bf16, a fused optimizer, no wait for the device, and half the rows where it is full."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from pipelines.acceleration import apply, precision
from pipelines.core import cpu
from pipelines.core.resources import Resources
from pipelines.entries.finetune import Finetune
from pipelines.entries.parts.fit import Fit
from pipelines.models.batch import Batch
from pipelines.models.quantization import packed
from pipelines.training import loop, losses, strategies
from pipelines.training.batches import RowBatches
from pipelines.training.loop import Job, Training
from tests.gpu.conftest import CUDA, DEVICE, job, model, no_waiting, rows

pytestmark = pytest.mark.gpu
# Adam would turn the rounding of a gradient that is nothing but rounding into a whole step
SGD: dict[str, Any] = {"batch_size": 8, "optimizer": "sgd", "learning_rate": 0.02}
CHUNK = 2**28  # bytes that a row takes in a loss that fills a GPU


def trained(of: Job) -> dict[str, torch.Tensor]:
    """The weights after the job, in the host's memory."""
    loop.train(of, lambda metrics: None, "")
    state: dict[str, Any] = torch.load(of.checkpoint, weights_only=True, map_location="cpu")
    of.checkpoint.unlink()
    return state["model"]


def close(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor], within: float) -> bool:
    return all(torch.allclose(tensor, b[name], atol=within) for name, tensor in a.items())


def test_bf16_and_the_fused_optimizer_are_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dtypes: set[torch.dtype] = set()
    classifier = model()
    classifier.classifier.register_forward_hook(lambda layer, inputs, output: dtypes.add(output.dtype))
    training = Training(job(classifier, tmp_path, Fit(batch_size=8)), "")
    training.step(training.job.batches[0])
    assert dtypes == {torch.bfloat16 if CUDA else torch.float32}
    assert training.optimizer.defaults["fused"]
    assert {p.dtype for p in classifier.parameters()} == {torch.float32}
    states = [tensor for state in training.optimizer.state.values() for tensor in state.values()]
    assert states
    assert {tensor.device.type for tensor in states} == {DEVICE.type}
    slow = not CUDA and not cpu.has_bf16()
    assert bool(precision.told("bf16")) == slow, "a CPU without the instructions says that it takes fp32"
    assert precision.is_bf16("auto") == CUDA


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_step_does_not_wait_for_the_gpu(accumulate: int, tmp_path: Path, calls: list[int]) -> None:
    classifier, params = model(), Fit(batch_size=8, epochs=12, accumulate=accumulate)
    batches = RowBatches(rows(), 8, 12, 1, 0)
    with apply.to_rows(classifier, batches, "single", tmp_path, Resources()) as on:
        of = job(classifier, tmp_path, params, batches=on.batches, accelerated=on.names)
        training = Training(of, "")
        training.waits = False
        assert {"sequence packing", "cls-only last layer"} <= set(on.names or ())
        # what is switched on for steps on a CPU is not what a GPU has
        with apply.to_steps(classifier, "auto", on.names if CUDA else None) as steps:
            training.attention = steps.attention
            for step in range(16):
                training.now.step = step
                batch = of.batches[step]
                if step < 8:  # what is made once: the optimizer's state, graphs, libraries' own
                    training.step(batch)
                    continue
                with no_waiting():
                    training.step(batch)
    assert [*training.unread] == list(range(16))
    assert calls
    assert set(calls) <= {64, 128, 192}


@pytest.mark.parametrize("watched", [False, True])
def test_losses_that_are_read_later_are_the_same(watched: bool, tmp_path: Path) -> None:
    ends = []
    for waits in (True, False):
        scores = iter([0.1, 0.4, 0.3, 0.2, 0.1, 0.1, 0.1])
        more: dict[str, Any] = {"watch": lambda _, of=scores: {"accuracy": next(of)}} if watched else {}
        params = Fit(**SGD, epochs=16, evaluations=8, patience=2 if watched else 0)
        training = Training(job(model(), tmp_path, params, **more, select="accuracy" if watched else ""), "")
        training.waits = waits
        beats: list[dict[str, float]] = []
        training.run(beats.append)
        ends.append((training.now, beats, training.model.state_dict()))
        (tmp_path / "fit.pt").unlink()
    (now, beats, weights), (later, same, others) = ends
    assert len(now.curve) == (24 if watched else 48), "patience ends the training at the fourth score"
    assert [step for step, _ in later.curve] == [step for step, _ in now.curve]
    for (_, expected), (_, later_loss) in zip(now.curve, later.curve, strict=True):
        assert later_loss == pytest.approx(expected, rel=0.05 if CUDA else 1e-4)
    assert (len(beats), later.best, later.seen) == (len(same), now.best, [])
    if not CUDA:
        assert close(weights, others, 1e-5)


def test_a_loss_that_is_no_number_is_named_by_its_own_step(tmp_path: Path) -> None:
    def breaking(model: torch.nn.Module, batch: Batch, step: int) -> losses.Sums:
        total, count = losses.classification(model, batch, step)
        return (total * float("inf") if step == 4 else total), count

    training = Training(job(model(), tmp_path, Fit(batch_size=8, epochs=16), breaking), "")
    training.waits = False
    with pytest.raises(Exception, match="step 5: the loss is"):
        training.run(lambda metrics: None)
    assert not training.job.checkpoint.exists()


def filling(most: int, batch_sizes: list[int], model: torch.nn.Module, batch: Batch, step: int) -> losses.Sums:
    """A loss for which more than `most` rows at once do not fit: on a GPU its allocator says so, on a CPU this."""
    batch_sizes.append(len(batch["labels"]))
    if CUDA:
        torch.empty(batch_sizes[-1] * CHUNK, dtype=torch.uint8, device=DEVICE)
    elif batch_sizes[-1] > most:
        raise torch.OutOfMemoryError("out of memory")
    return losses.classification(model, batch, step)


def test_too_little_memory_halves_the_rows_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    params, batch_sizes = Fit(**SGD, epochs=2), []
    whole = trained(job(model(dropout=0.0), tmp_path, params, precision="fp32"))
    assert not close(whole, model(dropout=0.0).state_dict(), 1e-4)
    if CUDA:
        torch.cuda.empty_cache()
        room = torch.cuda.memory_reserved() + 6 * CHUNK
        torch.cuda.set_per_process_memory_fraction(room / torch.cuda.get_device_properties(0).total_memory)
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    capsys.readouterr()
    try:
        halves = trained(job(model(dropout=0.0), tmp_path, params, partial(filling, 4, batch_sizes), precision="fp32"))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0) if CUDA else None
    printed = capsys.readouterr().err
    assert printed.count("step 1: 8 rows at once do not fit into memory; half as many from here on") == 1
    assert batch_sizes == [8] + [4] * 12
    assert close(whole, halves, 1e-5)


def test_frozen_features_on_the_device_are_the_same_training(tmp_path: Path) -> None:
    ends, devices = [], []

    def noted(model: torch.nn.Module, batch: Batch, step: int) -> losses.Sums:
        devices.append({name: tensor.device.type for name, tensor in batch.items()})
        return losses.classification(model, batch, step)

    entry = Finetune(**SGD, data="d", encoder="e", epochs=3, strategy="top_k", top_k=1)
    for on_or_off in (False, True):
        classifier = model(dropout=0.0)
        groups = partial(strategies.groups, params=entry)
        groups(classifier)
        batches = RowBatches(rows(), 8, 3, 1, 0)
        resources = Resources(acceleration=on_or_off, precision="fp32")
        with apply.to_rows(classifier, batches, "single", tmp_path, resources) as on:
            more: dict[str, Any] = {"batches": on.batches, "groups": groups, "accelerated": on.names}
            of = job(classifier, tmp_path, entry, noted, precision="fp32", **more)
            classifier.load_state_dict(trained(of))
            if on_or_off:
                states = on.batches[0]["inputs_embeds"]
                assert states.device.type == DEVICE.type, "states are gathered where they are needed"
        ends.append(classifier.cpu().state_dict())
    assert "input_ids" in devices[0]
    assert devices[-1]["inputs_embeds"] == DEVICE.type
    assert "input_ids" not in devices[-1]
    assert not close(ends[0], model(dropout=0.0).state_dict(), 1e-3)
    assert close(*ends, 1e-4)  # states are kept in float16


def test_what_is_packed_after_a_training_is_on_its_device() -> None:
    layer = packed.PackedLinear(torch.nn.Linear(5, 7).to(DEVICE), packed.Grid(bits=3, rows=2))
    assert {tensor.device.type for tensor in layer.state_dict().values()} == {DEVICE.type}
    assert layer(torch.ones(1, 5, device=DEVICE)).shape == (1, 7)
