"""Every kind of rows by every family that has a head for it: fine-tuned, saved, opened again, predicting the same."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from pipelines.core import schema, tables
from pipelines.core.entries import Finetune, Floor, Resources
from pipelines.core.errors import InputError, UsageError
from pipelines.core.task import Task
from pipelines.evaluation.score import score
from pipelines.inference import floor, onnx_export
from pipelines.inference.predictor import Predictor
from pipelines.models import folder as model_folder
from pipelines.models import heads, lean
from pipelines.text import encoding, tokenizer
from pipelines.text.encoding import span
from pipelines.training import losses, prefix, strategies
from pipelines.training.batches import Encoded, RowBatches
from pipelines.training.distributed import fitting
from tests import tiny

FAMILIES = ("bert", "roberta", "albert", "electra", "distilbert", "xlnet", "mobilebert", "deberta-v2", "modernbert")
TASKS = {
    "single": Task("t", "single", tiny.LABELS, "accuracy"),
    "pair": Task("t", "pair", ("no", "yes"), "accuracy"),
    "regression": Task("t", "regression", (), "pearson"),
    "span": Task("t", "span", (), "f1", language="ja"),
    "tagging": Task("t", "tagging", ("animal", "time"), "f1", units="characters"),
    "choice": Task("t", "choice", ("0", "1", "2"), "accuracy"),
}


def rows(kind: str, count: int = 24) -> pa.Table:
    """Rows that can be learned by heart."""
    words = ["犬", "映画", "試合", "公開日"]
    made: list[dict[str, Any]] = []
    for i in range(count):
        word = words[i % len(words)]
        text = f"私は{word}が好き。" + "監督が語る、" * (i % 3)
        row: dict[str, Any] = {"id": str(i), "text": text, "text_pair": words[i // 4 % 4], "label": None}
        if kind == "single":
            row["label"] = tiny.LABELS[i % len(words) % 3]
        elif kind == "pair":
            row["label"] = "yes" if row["text_pair"] == word else "no"
        elif kind == "regression":
            row["label"] = float(i % len(words))
        elif kind == "span":
            row |= {"question": "何が好き", "context": text, "answers": [{"text": word, "start": 2}]}
        elif kind == "tagging":
            row["entities"] = [{"start": 2, "end": 2 + len(word), "label": "animal" if word == "犬" else "time"}]
        else:
            row |= {"choices": [words[(i + k) % 3] for k in range(3)], "label": str(-i % 3)}  # the dog
        made.append({name: row[name] for name in schema.ROWS[kind].names})
    return pa.Table.from_pylist(made, schema=schema.ROWS[kind])


def model_and_rows(kind: str, family: str, place: Path) -> tuple[torch.nn.Module, Encoded]:
    """A model of `family` that does not drop anything, and rows for it; skips where the family has no such head."""
    source = tiny.of_family(family, place / "encoder")
    torch.manual_seed(2)
    try:
        model = heads.for_task(source, TASKS[kind]).eval()
    except InputError:
        pytest.skip("the family has no such head")
    return model, encoded(kind, place / "encoded", source)


def encoded(kind: str, folder: Path, source: Path) -> Encoded:
    loaded, task = tokenizer.load(source), TASKS[kind]
    (batch,) = rows(kind).combine_chunks().to_batches()
    ids, _ = encoding.for_kind(kind).encode(batch, loaded, task, 32)
    tables.write(folder / "train.parquet", iter([ids]), schema.encoded(kind, loaded.vocab_size))
    return Encoded.read(folder, "train")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", TASKS)
def test_it_is_fine_tuned_saved_and_opened_again(kind: str, family: str, checkout: Path) -> None:
    source, task = tiny.of_family(family, checkout / "encoder"), TASKS[kind]
    data = encoded(kind, checkout / "encoded", source)
    entry = Finetune(data="d", encoder="e", epochs=4, batch_size=8, learning_rate=3e-3, warmup=0)
    torch.manual_seed(2)
    model = heads.for_task(source, task)
    groups = strategies.groups(model, entry)
    assert groups
    curve: list[Any] = []
    batches = RowBatches(data, entry.batch_size, entry.epochs, 1, 0)
    with fitting("finetune", "t", Resources()) as fit:
        fit(model, losses.for_kind(kind), batches, entry, report=lambda *point: curve.append(point))
    assert np.isfinite([point["loss"] for _, point in curve]).all()
    (checkout / "model").mkdir()
    model_folder.save(model, checkout / "model", source, task)
    predictor = Predictor.load(checkout / "model")
    answers = predictor.predict(rows(kind))
    assert answers.schema.names == schema.PREDICTIONS[kind].names
    assert answers.num_rows == 24
    weights = predictor.runtime.model.state_dict()  # type: ignore[attr-defined]
    assert all(tensor.equal(weights[name]) for name, tensor in model.state_dict().items())
    check_that_company_changes_nothing(predictor, rows(kind), answers)
    found = score(rows(kind), answers, task)["metrics"]
    assert 0 <= found[task.metric] <= 1 or kind == "regression"


@pytest.mark.parametrize("strategy", ["top_k", "frozen"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", TASKS)
def test_what_a_strategy_freezes_does_not_move(kind: str, family: str, strategy: str, checkout: Path) -> None:
    """As the finetune stage runs it: kept states and lean steps where the family has them."""
    source, task = tiny.of_family(family, checkout / "encoder"), TASKS[kind]
    data = encoded(kind, checkout / "encoded", source)
    rate = {"learning_rate": 1e-2, "warmup": 0}
    entry = Finetune(data="d", encoder="e", epochs=1, batch_size=8, strategy=strategy, top_k=1, **rate)
    torch.manual_seed(2)
    model = heads.for_task(source, task)
    groups = partial(strategies.groups, params=entry)
    trains = {id(parameter) for group in groups(model) for parameter in group["params"]}
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    batches, resources = RowBatches(data, 8, 1, 1, 0), Resources()
    with (
        fitting("finetune", "t", resources) as fit,
        prefix.taken_off(model, batches, Path("state/prefix"), resources) as (inputs, _),
        lean.steps(model, kind, data.ids, 0),
    ):
        fit(model, losses.for_kind(kind), inputs, entry, groups)
    moved = {name for name, parameter in model.named_parameters() if not parameter.equal(before[name])}
    assert moved
    assert moved <= {name for name, parameter in model.named_parameters() if id(parameter) in trains}
    assert set(before) - moved, "all of it moved"


def check_that_company_changes_nothing(predictor: Predictor, given: pa.Table, answers: pa.Table) -> None:
    """A row is answered alone as it is among longer and shorter ones."""
    for i in (0, 5, 23):
        alone = predictor.predict(given.slice(i, 1)).to_pylist()[0]
        for name, value in answers.slice(i, 1).to_pylist()[0].items():
            same = isinstance(value, str) or name == "entities"
            assert alone[name] == (value if same else pytest.approx(value, abs=1e-4)), name


@pytest.mark.parametrize("kind", TASKS)
def test_it_learns_by_heart_and_beats_no_answer(kind: str, checkout: Path) -> None:
    """A model of the family that learns quickest is right on what it was shown, alone and in company, and as ONNX."""
    source, task = tiny.of_family("modernbert", checkout / "encoder"), TASKS[kind]
    data = encoded(kind, checkout / "encoded", source)
    entry = Finetune(data="d", encoder="e", epochs=120, batch_size=8, learning_rate=3e-3)
    torch.manual_seed(2)
    model = heads.for_task(source, task)
    with fitting("finetune", "t", Resources()) as fit:
        fit(model, losses.for_kind(kind), RowBatches(data, 8, entry.epochs, 1, 0), entry)
    (checkout / "model").mkdir()
    model_folder.save(model, checkout / "model", source, task)
    predictor, given = Predictor.load(checkout / "model"), rows(kind)
    answers = predictor.predict(given)
    assert score(given, answers, task)["metrics"][task.metric] > 0.95
    check_that_company_changes_nothing(predictor, given, answers)
    (checkout / "onnx").mkdir()
    assert onnx_export.export(checkout / "model", checkout / "onnx", 18, 1e-3) < 1e-3
    exported = Predictor.load(checkout / "onnx", "onnx").predict(given)
    assert score(given, exported, task)["metrics"] == pytest.approx(score(given, answers, task)["metrics"], abs=1e-3)


@pytest.mark.parametrize("kind", TASKS)
def test_a_floor_predicts_every_kind(kind: str) -> None:
    given, task = rows(kind), TASKS[kind]
    baseline = floor.for_task(task, Floor(task="t")).fit(given)
    answers = baseline.predict(given)
    assert answers.schema.names == schema.PREDICTIONS[kind].names
    assert task.metric in score(given, answers, task)["metrics"]
    assert baseline.parameters > 0


def test_what_a_kind_does_not_take_is_one_sentence(checkout: Path) -> None:
    source = tiny.of_family("bert", checkout / "encoder")
    with pytest.raises(UsageError, match="rows of kind span take the native head"):
        heads.for_task(source, TASKS["span"], "linear")
    model = heads.for_task(source, TASKS["choice"])
    (checkout / "model").mkdir()
    model_folder.save(model, checkout / "model", source, TASKS["choice"])
    predictor = Predictor.load(checkout / "model")
    with pytest.raises(InputError, match="row 1 has 2 choices; 3 are expected"):
        predictor.predict(pa.table({"text": ["a", "b"], "choices": [["a", "b", "c"], ["a", "b"]]}))
    with pytest.raises(InputError, match="'choices' holds string; lists of text is expected"):
        predictor.predict(pa.table({"text": ["a"], "choices": ["b"]}))


def test_windows_of_a_long_context_answer_together(checkout: Path) -> None:
    assert span.STRIDE > 0
    source, task = tiny.of_family("modernbert", checkout / "encoder"), TASKS["span"].with_(unanswerable=True)
    model = heads.for_task(source, task)
    (checkout / "model").mkdir()
    model_folder.save(model, checkout / "model", source, task)
    predictor = Predictor.load(checkout / "model")
    context = "監督が語る、" * 80
    given = pa.table({"id": ["a", "b"], "question": ["何"] * 2, "context": [context, "犬"]})
    answers = predictor.predict(given).to_pylist()
    assert [answer["id"] for answer in answers] == ["a", "b"]
    assert answers[0]["best"] == context[answers[0]["start"] :][: len(answers[0]["best"])]
    for answer in answers:
        assert (answer["answer"] == "") == (answer["no_answer"] > 0)
        assert 0 < answer["score"] <= 1
