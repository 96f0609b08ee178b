"""What the teacher says: the same from files as from the teacher, whatever the order of batches, and asked once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pipelines.compression import states, teacher_outputs
from pipelines.compression.context import Context, Data
from pipelines.compression.teacher_outputs import MARK, OutputRequest
from pipelines.core.resources import Resources
from pipelines.entries.parts.fit import Fit
from pipelines.models import backbones, shapes
from pipelines.models.batch import Batch
from pipelines.training.batches import RowBatches
from pipelines.training.distributed import fitting
from tests.support.kinds import FAMILIES, TASKS, model_and_rows

ASKED = OutputRequest(first=(0, 2), hidden=(0, 1), attention=(2,))
PARAMS = Fit(batch_size=5, epochs=1, seed=3)


def context_of(checkout: Path, kind: str = "single", family: str = "bert", cache_gb: float = 1.0) -> Context:
    teacher, data = model_and_rows(kind, family, checkout)
    with fitting("compress", "t", Resources(cache_gb=cache_gb)) as fit:
        rows: Any = Data(data, None, 0)
        nothing: Any = None
        return Context(teacher, TASKS[kind], rows, nothing, None, 1, fit, checkout / "cache", None)


def without_teacher(batch: Batch) -> Batch:
    """What is in a batch without a teacher."""
    return {name: tensor for name, tensor in batch.items() if not name.startswith(MARK)}


@pytest.mark.parametrize("family", ["bert", "modernbert"])
@pytest.mark.parametrize("kind", TASKS)
def test_cached_outputs_are_the_teachers(kind: str, family: str, checkout: Path) -> None:
    context = context_of(checkout, kind, family)
    teaching = teacher_outputs.ask(context, ASKED)
    assert not teaching.again
    lessons = teacher_outputs.TeacherBatches(context.data.batches(PARAMS), teaching.arrays)
    names = {"logits", "first.0", "first.2", "hidden.0", "hidden.1", "queries.2", "keys.2"}
    rows_seen = 0
    for step in range(len(lessons)):
        batch = lessons[step]
        with torch.no_grad():
            expected = teacher_outputs.told(context.teacher, kind, ASKED, without_teacher(batch))
        assert {name.removeprefix(MARK) for name in batch if name.startswith(MARK)} == names == set(expected)
        for name, tensor in expected.items():
            stored = batch[MARK + name].float()
            assert stored.shape == tensor.shape, name
            if teaching.arrays[name].tokens:
                tensor = tensor * batch["attention_mask"][..., None]
            assert stored.allclose(tensor, atol=1e-4 if name == "logits" else 5e-3, rtol=1e-3), name
        rows_seen += len(lessons.rows(step))
    assert rows_seen == len(context.data.train)


def test_the_teacher_is_asked_once_and_a_killed_run_takes_the_files_up(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = context_of(checkout)
    teacher_outputs.ask(context, ASKED)
    files = {path.name: path.stat().st_mtime_ns for path in context.cache.iterdir()}
    assert "outputs.json" in files
    questions: list[int] = []
    through = teacher_outputs.frozen_features.read_through
    monkeypatch.setattr(
        teacher_outputs.frozen_features, "read_through", lambda *arguments: questions.append(1) or through(*arguments)
    )
    teacher_outputs.ask(context, ASKED)
    teacher_outputs.ask(context)
    assert {path.name: path.stat().st_mtime_ns for path in context.cache.iterdir()} == files
    assert not questions
    teacher_outputs.ask(context, OutputRequest(hidden=(2,)))  # not among those
    assert questions == [1]
    (context.cache / "outputs.json").unlink()  # killed before it was finished
    teacher_outputs.ask(context, ASKED)
    assert questions == [1, 1]


def test_logits_of_a_cut_request_are_computed_again(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = context_of(checkout)
    expected = np.array(teacher_outputs.ask(context).arrays["logits"].open())

    def cut(*_: Any) -> Any:
        raise KeyboardInterrupt
        yield

    with monkeypatch.context() as patched:
        patched.setattr(teacher_outputs.frozen_features, "read_through", cut)
        with pytest.raises(KeyboardInterrupt):
            teacher_outputs.ask(context, ASKED)
    assert np.array_equal(teacher_outputs.ask(context).arrays["logits"].open(), expected)


@pytest.mark.parametrize("why", ["no room", "other machines", "numbers too large for float16"])
def test_without_files_the_teacher_is_asked_at_every_step(
    why: str, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why == "other machines":
        monkeypatch.setenv("RAY_ADDRESS", "ray://elsewhere")
    context = context_of(checkout, cache_gb=0.0 if why == "no room" else 1.0)
    if why == "numbers too large for float16":
        backbones.layers(context.teacher)[0].output.LayerNorm.weight.data.mul_(1e6)
    teaching = teacher_outputs.ask(context, ASKED)
    assert teaching.again
    assert [*teaching.arrays] == ["logits"]
    assert (teaching.arrays["logits"].inside is not None) == (why == "other machines")
    outputs_given: list[teacher_outputs.TeacherOutputs] = []

    def loss(model: torch.nn.Module, batch: Any, outputs: teacher_outputs.TeacherOutputs) -> Any:
        assert not any(name.startswith(MARK) for name in batch)
        outputs_given.append(outputs)
        return torch.zeros(()), torch.ones(())

    batch = teacher_outputs.TeacherBatches(context.data.batches(PARAMS), teaching.arrays)[0]
    teacher_outputs.DistilledLoss(loss, "single", ASKED, context.teacher)(context.teacher, batch, 0)
    with torch.no_grad():
        expected = teacher_outputs.told(context.teacher, "single", ASKED, without_teacher(batch))
    assert outputs_given[0].keys() == expected.keys()
    assert all(tensor.allclose(expected[name], rtol=1e-4, atol=1e-5) for name, tensor in outputs_given[0].items())
    assert (expected["hidden.1"].abs().max() > 65504) == (why == "numbers too large for float16")


def test_a_full_disk_is_an_error_before_anything_is_asked(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(teacher_outputs.frozen_features.os, "posix_fallocate", full)
    context = context_of(checkout)
    with pytest.raises(OSError, match="No space left on device"):
        teacher_outputs.ask(context, ASKED)
    assert not (context.cache / "outputs.json").exists()


@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in ("xlnet", "deberta-v2")])
def test_recorded_states_are_what_the_layers_compute(family: str, checkout: Path) -> None:
    """Hidden states are transformers' own; softmax of the scores over tokens inside is transformers' own attention."""
    model, data = model_and_rows("single", family, checkout)
    batch = RowBatches(data, 4, 1, 0, 0)[0]
    plain: Any = backbones.inputs(model, batch)
    encoder = backbones.encoder(model)
    with torch.inference_mode():
        states_seen = states.see(model, "single", batch, attention=True)
        assert states_seen.logits.allclose(model(**plain).logits, atol=1e-5)
        encoder.set_attn_implementation("eager")
        expected = encoder(**plain, output_hidden_states=True, output_attentions=True)
    assert len(states_seen.hidden) == len(expected.hidden_states) == 3
    assert all(a.allclose(b, atol=1e-5) for a, b in zip(states_seen.hidden, expected.hidden_states, strict=True))
    assert len(states_seen.attention) == len(expected.attentions) == 2
    outside = ~batch["attention_mask"].bool()[:, None, None]
    for layer, weights in enumerate(expected.attentions, start=1):
        attention = states_seen.scores(layer).masked_fill(outside, -1e9).softmax(dim=-1)
        rows = batch["attention_mask"].bool()[:, None, :, None].expand_as(attention)
        assert attention[rows].allclose(weights[rows], atol=1e-5)
    if family != "modernbert":
        assert states_seen.attention[0][0].shape[1] == shapes.heads(model)[0]


def test_attention_kernels_are_as_before_and_nothing_is_kept(checkout: Path) -> None:
    model, data = model_and_rows("single", "bert", checkout)
    batch = RowBatches(data, 4, 1, 0, 0)[0]
    before = model.config._attn_implementation
    assert len(states.see(model, "single", batch, attention=True).attention) == 2
    assert model.config._attn_implementation == before != states.KERNEL
    assert not states._caught
    assert not backbones.encoder(model)._forward_hooks
    assert states.see(model, "single", batch).attention == []


def test_tokens_of_rows_with_several_sequences_are_found(checkout: Path) -> None:
    _, data = model_and_rows("choice", "bert", checkout)
    rows = np.array([4, 1])
    places = teacher_outputs._places(data, rows)
    expected = [np.arange(data.offsets[s], data.offsets[s + 1]) for s in (12, 13, 14, 3, 4, 5)]
    assert places.tolist() == np.concatenate(expected).tolist()
