"""Every objective, by every family that can: it learns, is resumed exactly, and leaves a folder that opens again."""

import re
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import pretrained
from pipelines.core import paths, plugins, tables
from pipelines.core.errors import InputError, UsageError
from pipelines.core.ragged import ragged
from pipelines.core.resources import Resources
from pipelines.core.schema import encoded
from pipelines.core.task import Task
from pipelines.entries.pretrain import Pretrain
from pipelines.models.backbones import BACKBONES
from pipelines.pretraining import pretrain_entry
from pipelines.pretraining.corrupted_batches import CorruptedBatches
from pipelines.text import tokenizer
from pipelines.text.encoding.sequence import lists
from pipelines.training import losses, optim, parts
from pipelines.training.distributed import fitting
from pipelines.training.loop import Job, Training
from pipelines.training.parts import Part
from tests.support import tiny

OBJECTIVES = "pipelines.objectives"
# objective -> the families that it can train, and no other
ABLE = {
    "mlm": ("bert", "roberta", "albert", "electra", "distilbert", "modernbert", "mobilebert", "deberta-v2"),
    "contrast": ("modernbert", "bert", "roberta", "albert", "electra", "distilbert", "mobilebert", "deberta-v2"),
    "nsp": ("bert", "albert"),
    "sop": ("bert", "albert"),
    "replaced_token": ("electra",),
    "permutation": ("xlnet",),
    "bilm": ("bilstm",),
}


def able(name: str) -> list[str]:
    """The families that an objective does not refuse."""
    families = []
    for family in BACKBONES:
        with suppress(InputError):
            plugins.load(OBJECTIVES, name).check(family)
            families.append(family)
    return families


PAIRS = [(name, family) for name in plugins.names(OBJECTIVES) for family in able(name)]


@pytest.fixture
def text(checkout: Path) -> Path:
    """Encoded documents, of which most tokens say what stands beside them; split into train and test."""
    import pyarrow as pa

    folder = checkout / "encoded"
    tiny.tokenizer(folder / "tokenizer")
    vocab = tokenizer.load(folder / "tokenizer").vocab_size
    rng = np.random.default_rng(0)
    documents = [(np.arange(rng.integers(5, 60)) + rng.integers(0, 20)) % 20 + 5 for _ in range(30)]
    fields = encoded("text", vocab)
    for split, rows in {"train": documents, "test": documents[:5]}.items():
        ids = ragged([row.tolist() for row in rows])
        columns = [
            pa.array(map(str, range(len(rows)))),
            lists(ids, fields.field("input_ids").type),
            pa.array(ids.lengths, pa.uint32()),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=fields)
        tables.write(folder / f"{split}.parquet", iter([batch]), fields)
    tiny.describe(folder, Task("t", "text"), 24, vocab)
    return folder


def started(
    name: str, family: str, text: Path, epochs: int = 6
) -> tuple[ModuleType, CorruptedBatches, torch.nn.Module, Pretrain]:
    objective, loaded = plugins.load(OBJECTIVES, name), tokenizer.load(text / "tokenizer")
    options = objective.Params()
    shape = tiny.shape(family, text)
    objective.check(pretrained.family(shape))
    model = pretrained.start(shape, tiny.SMALL[family], objective.auto(options), loaded, seed=1)
    entry = Pretrain(
        data="d",
        start="s",
        objective=name,
        epochs=epochs,
        batch_size=8,
        learning_rate=1e-2,
        schedule="constant",
        warmup=0,
    )
    return objective, CorruptedBatches(objective, options, text, loaded, entry), model, entry


@pytest.mark.parametrize(("name", "family"), PAIRS)
def test_an_objective_learns_and_its_model_opens_again(name: str, family: str, text: Path, tmp_path: Path) -> None:
    objective, batches, model, entry = started(name, family, text)
    assert all(batches[3][key].equal(tensor) for key, tensor in batches[3].items())
    around, curve = objective.around(model, objective.Params()), []
    held_out = CorruptedBatches(objective, objective.Params(), text, tokenizer.load(text / "tokenizer"), entry, True)
    before = losses.held_out(around.eval(), held_out, objective.predict)
    with fitting("pretrain", name, Resources()) as fit:
        loss = losses.Pretraining(objective.predict)
        watch = lambda model: losses.held_out(model, held_out, objective.predict)  # noqa: E731
        fit(around, loss, batches, entry, report=lambda *point: curve.append(point), watch=watch)
    last = curve[-1][1]
    assert last["loss"] < curve[0][1]["loss"]
    perplexities = [key for key in before if key.endswith("_perplexity")]
    assert perplexities
    assert sum(last[key] for key in perplexities) < sum(before[key] for key in perplexities)
    (tmp_path / "out").mkdir()
    model_folder.save(model, tmp_path / "out", text / "tokenizer")
    again = objective.auto(objective.Params()).from_pretrained(tmp_path / "out")
    weights = model.state_dict()
    assert all(tensor.equal(weights[key]) for key, tensor in again.state_dict().items())


@pytest.mark.parametrize(("name", "family"), [(name, able(name)[0]) for name in plugins.names(OBJECTIVES)])
def test_a_run_cut_off_ends_with_the_weights_of_an_unbroken_one(name: str, family: str, text: Path) -> None:
    objective, batches, model, entry = started(name, family, text, epochs=1)
    loss, resources = losses.Pretraining(objective.predict), Resources(checkpoint_minutes=1e-9)
    torch.manual_seed(5)
    whole = objective.around(model, objective.Params())
    start = {key: tensor.clone() for key, tensor in whole.state_dict().items()}
    with fitting("pretrain", "whole", resources) as fit:
        fit(whole, loss, batches, entry)
    expected = {key: tensor.clone() for key, tensor in whole.state_dict().items()}

    class Cut(CorruptedBatches):
        left = 3

        def __getitem__(self, step: int) -> dict[str, torch.Tensor]:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
            return super().__getitem__(step)

    cut = Cut(objective, objective.Params(), text, batches.tokenizer, entry)
    whole.load_state_dict(start)
    with pytest.raises(KeyboardInterrupt), fitting("pretrain", "cut", resources) as fit:
        fit(whole, loss, cut, entry)
    whole.load_state_dict(start)
    with fitting("pretrain", "cut", resources) as fit:
        fit(whole, loss, cut, entry)
    assert all(tensor.equal(expected[key]) for key, tensor in whole.state_dict().items())


def training(name: str, text: Path) -> Training:
    """The training of an objective by the first family that can, in eval mode, so that no dropout is drawn."""
    objective, batches, model, entry = started(name, able(name)[0], text)
    around, loss = objective.around(model, objective.Params()), losses.Pretraining(objective.predict)
    started_training = Training(Job(around, loss, batches, entry, None, text / "fit.pt", 1e9), "")
    around.eval()
    return started_training


@pytest.mark.parametrize("name", plugins.names(OBJECTIVES))
def test_a_row_is_predicted_alone_unless_the_objective_says_that_it_compares_rows(name: str, text: Path) -> None:
    objective, of = plugins.load(OBJECTIVES, name), training(name, text)
    batch = of.job.batches[0]
    singly = [{key: tensor[row : row + 1] for key, tensor in batch.items()} for row in range(8)]
    together, *alone = (objective.predict(of.model, rows) for rows in (batch, *singly))
    for whole, *parts_of_it in zip(together, *alone, strict=True):
        if whole.name == "replaced":  # the generator draws the tokens that it reads
            continue
        logits = [part.logits for part in parts_of_it]
        compares = whole.name == name and getattr(objective, "COMPARES_ROWS", False)
        assert (whole.logits.shape[1:] == logits[0].shape[1:]) != compares
        assert compares or torch.allclose(torch.cat(logits), whole.logits, atol=1e-4)


@pytest.mark.parametrize("name", plugins.names(OBJECTIVES))
def test_a_worker_without_rows_of_its_own_adds_nothing(name: str, text: Path) -> None:
    of = training(name, text)
    row = {key: tensor[:1] for key, tensor in of.job.batches[0].items()}
    assert of._backward([Part(row, counts=False)], 0, alone=False).tolist() == [0, 0]
    assert not any(p.grad.any() for p in of.trained if p.grad is not None)
    assert of._backward([Part(row)], 0, alone=False).all()
    assert any(p.grad.any() for p in of.trained if p.grad is not None)


@pytest.mark.parametrize("name", [name for name in plugins.names(OBJECTIVES) if name != "contrast"])
def test_a_batch_in_parts_or_by_several_workers_is_one_update(
    name: str, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradients of the workers are added up here; the generator's draw is its best guess, the same in any part."""
    monkeypatch.setattr(torch, "multinomial", lambda shares, _: shares.argmax(dim=-1, keepdim=True))
    of = training(name, text)
    batch, start = of.job.batches[0], {key: tensor.clone() for key, tensor in of.model.state_dict().items()}
    seen = []
    for count in (1, 2, 4):
        of.model.load_state_dict(start)
        of.parts = count
        of.step(batch)
        seen.append([float(of.unread[0]), *(p.grad.clone() for p in of.trained if p.grad is not None)])
    of.model.load_state_dict(start)
    of.optimizer.zero_grad()
    of.job.loss.expect(batch)  # type: ignore[attr-defined]
    total, rows = sum(of._backward(parts.of(batch, rank, 3, 1), 0, alone=False) for rank in range(3)).tolist()
    optim.scale(of.trained, 1 / rows, of.job.params.max_grad_norm)
    seen.append([total / rows, *(p.grad for p in of.trained if p.grad is not None)])
    for loss, *gradients in seen[1:]:
        assert loss == pytest.approx(seen[0][0], rel=1e-5)
        assert len(gradients) == len(seen[0][1:]) > 0
        assert all(torch.allclose(*pair, atol=1e-5) for pair in zip(gradients, seen[0][1:], strict=True))


def pretrained_by(name: str, text: Path, resources: Resources, **more: Any) -> dict[str, Any]:
    """The metrics that the stage writes after a short run on the encoded `text`."""
    family = able(name)[0]
    settings = {"data": "t", "start": str(tiny.shape(family, text)), "objective": name, "epochs": 0.1, "batch_size": 4}
    paths.encoded("t").parent.mkdir(parents=True)
    text.rename(paths.encoded("t"))
    entry = Pretrain.model_validate(settings | {"config": tiny.SMALL[family]} | more)
    return pretrain_entry.pretrain("x", entry, Path("out"), resources)


@pytest.mark.parametrize("workers", [2, (1, 4)])
def test_an_objective_that_compares_rows_runs_on_one_worker(workers: Any, text: Path) -> None:
    message = (
        r"workers: [24]: contrast compares the rows .* one worker; set resources\.stages\.pretrain@x\.workers to 0"
    )
    with pytest.raises(UsageError, match=message):
        pretrained_by("contrast", text, Resources(workers=workers))


def test_a_batch_of_an_objective_that_compares_rows_is_not_halved(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr("pipelines.objectives.contrast.predict", full)
    with pytest.raises(InputError, match=r"^4 rows at once do not fit into memory; reduce batch_size \(the objective"):
        pretrained_by("contrast", text, Resources())


def test_held_out_text_that_is_too_short_leaves_out_its_scores(
    text: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    table = tables.read(text / "test.parquet")
    shortest = int(np.argmin(table.column("length").to_numpy()))
    tables.write(text / "test.parquet", iter(table.slice(shortest, 1).to_batches()), table.schema)
    assert pretrained_by("mlm", text, Resources())["metrics"].keys() == {"loss"}
    line = (
        r"pretrain x: split test: \d+ tokens of text do not fill one sequence of 24; the model trains without scores on"
    )
    assert re.search(line, capsys.readouterr().err)


def test_a_killed_run_is_not_resumed_with_another_held_out_text(
    text: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patched, pytest.raises(AttributeError, match="save"):
        patched.delattr(pretrain_entry.folder, "save")
        pretrained_by("mlm", text, Resources())
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    paths.encoded("t").rename(text)
    paths.encoded("t").parent.rmdir()
    table = tables.read(text / "test.parquet")
    tables.write(text / "test.parquet", iter(table.slice(len(table) // 2).to_batches()), table.schema)
    pretrained_by("mlm", text, Resources())
    assert "training starts from the beginning" in capsys.readouterr().err


def test_whole_words_of_a_vocabulary_without_marks_are_refused_before_any_work(text: Path) -> None:
    tiny.tokenizer(text / "tokenizer", name="mecab_character")
    with pytest.raises(InputError, match=r"^whole_word: this vocabulary does not mark words"):
        pretrained_by("mlm", text, Resources(), whole_word=True)


SAID = {
    "mlm": "the {} family has no masked-token head",
    "contrast": "the {} family has no masked-token head",
    "nsp": "the {} family has no (masked-token head|head for two segments; there are: bert, albert)",
    "sop": "the {} family has no (masked-token head|head for two segments; there are: bert, albert)",
    "replaced_token": "a {} has no head for replaced tokens; electra has one",
    "permutation": "a {} has no two streams of attention; xlnet has",
    "bilm": "a {} reads in both directions at once; bilstm reads each separately",
}


@pytest.mark.parametrize("name", ABLE)
def test_every_other_family_is_refused_before_any_work(name: str) -> None:
    others = {*BACKBONES} - {*ABLE[name]}
    assert others
    for family in others:
        with pytest.raises(InputError, match=f"^{name}: {SAID[name].format(family)}"):
            plugins.load(OBJECTIVES, name).check(family)
