"""Every kind of rows by every family that has a head for it: fine-tuned, saved, opened again, predicting the same."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import new_head
from pipelines.compression import variant
from pipelines.core import schema
from pipelines.core.errors import InputError, UsageError
from pipelines.core.resources import Resources
from pipelines.core.task import Task
from pipelines.entries.baseline import Baseline
from pipelines.entries.finetune import Finetune
from pipelines.evaluation import baselines
from pipelines.evaluation.prediction_scores import score
from pipelines.export import onnx_export
from pipelines.inference.predictor import Predictor
from pipelines.measurement import row_exactness
from pipelines.training import losses, strategies
from pipelines.training.batches import RowBatches
from pipelines.training.distributed import fitting
from tests.support import tiny
from tests.support.covering import pairwise
from tests.support.fits import weights
from tests.support.kinds import FAMILIES, TASKS, encoded, rows

HOW = ("accelerated", "plain")
# layers and epochs by which a kind is learned by heart; whether two words are the same takes a second layer
TAKES = {"pair": (2, 60)}


@pytest.mark.parametrize(("kind", "family", "how"), pairwise([*TASKS], FAMILIES, HOW))
def test_a_model_is_fine_tuned_saved_and_opened_again(kind: str, family: str, how: str, checkout: Path) -> None:
    resources = Resources(acceleration=how == "accelerated")
    source, task = tiny.of_family(family, checkout / "encoder"), TASKS[kind]
    data = encoded(kind, checkout / "encoded", source)
    entry = Finetune(data="d", encoder="e", epochs=1, batch_size=8, learning_rate=3e-3, warmup=0)
    torch.manual_seed(2)
    model = new_head.for_task(source, task)
    groups = strategies.groups(model, entry)
    assert groups
    curve: list[Any] = []
    batches = RowBatches(data, entry.batch_size, entry.epochs, 1, 0)
    with fitting("finetune", "t", resources) as fit:
        fit(model, losses.for_kind(kind), batches, entry, kind=kind, report=lambda *point: curve.append(point))
    assert np.isfinite([point["loss"] for _, point in curve]).all()
    (checkout / "model").mkdir()
    model_folder.save(model, checkout / "model", source, task)
    predictor = Predictor.load(checkout / "model", accelerate=resources.acceleration)
    answers = predictor.predict(rows(kind))
    assert answers.schema.names == schema.PREDICTIONS[kind].names
    assert answers.num_rows == 24
    opened = predictor.runtime.model.state_dict()  # type: ignore[attr-defined]
    assert all(tensor.equal(opened[name]) for name, tensor in model.state_dict().items())
    check_that_company_changes_nothing(predictor, rows(kind), answers)
    assert variant.facts(checkout / "model")["model"]["flops_per_token"] > 0
    metrics = score(rows(kind), answers, task)["metrics"]
    assert 0 <= metrics[task.metric] <= 1 or kind == "regression"


@pytest.mark.parametrize(("kind", "family", "strategy", "how"), pairwise([*TASKS], FAMILIES, ("top_k", "frozen"), HOW))
def test_parameters_that_a_strategy_freezes_do_not_change(
    kind: str, family: str, strategy: str, how: str, checkout: Path
) -> None:
    """As the finetune stage runs it: accelerated where the family can be, or plainly."""
    resources = Resources(acceleration=how == "accelerated")
    source, task = tiny.of_family(family, checkout / "encoder"), TASKS[kind]
    data = encoded(kind, checkout / "encoded", source)
    rate = {"learning_rate": 1e-2, "warmup": 0}
    entry = Finetune(data="d", encoder="e", epochs=1, batch_size=8, strategy=strategy, top_k=1, **rate)
    torch.manual_seed(2)
    model = new_head.for_task(source, task)
    groups = partial(strategies.groups, params=entry)
    trains = {id(parameter) for group in groups(model) for parameter in group["params"]}
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    with fitting("finetune", "t", resources) as fit:
        fit(model, losses.for_kind(kind), RowBatches(data, 8, 1, 1, 0), entry, groups=groups, kind=kind)
    moved = {name for name, parameter in model.named_parameters() if not parameter.equal(before[name])}
    assert moved
    assert moved <= {name for name, parameter in model.named_parameters() if id(parameter) in trains}
    assert set(before) - moved, "all of it moved"


@pytest.mark.parametrize(("kind", "family", "strategy"), pairwise([*TASKS], FAMILIES, ("full", "top_k")))
def test_acceleration_does_not_change_the_answers(kind: str, family: str, strategy: str, checkout: Path) -> None:
    """The loss curve and every answer's numbers, with and without: dropout, whose draws differ, is off.

    States of frozen layers are kept in float16: top_k agrees to its three digits.
    """
    source, task = tiny.of_family(family, checkout / "encoder", dropout=False), TASKS[kind]
    data = encoded(kind, checkout / "encoded", source)
    entry = Finetune(data="d", encoder="e", epochs=2, batch_size=8, optimizer="sgd", learning_rate=0.02, top_k=1)
    entry = entry.model_copy(update={"strategy": strategy})
    groups, results = partial(strategies.groups, params=entry), []
    for on in (True, False):
        torch.manual_seed(2)
        model, curve = new_head.for_task(source, task), []
        with torch.no_grad():
            for matrix in (parameter for parameter in model.parameters() if parameter.dim() > 1):
                matrix *= 5  # large enough that a row that saw another one would tell
        groups(model)
        start = weights(model)
        with fitting("finetune", "t", Resources(acceleration=on)) as fit:
            add = partial(lambda curve, _, at: curve.append(at["loss"]), curve)
            batches = RowBatches(data, 8, entry.epochs, 1, 0)
            fit(model, losses.for_kind(kind), batches, entry, groups=groups, kind=kind, report=add)
        assert any(not tensor.equal(start[name]) for name, tensor in model.state_dict().items())
        folder = checkout / f"model-{on}"
        folder.mkdir()
        model_folder.save(model, folder, source, task)
        results.append((curve, Predictor.load(folder, accelerate=on).predict(rows(kind)).to_pylist()))
    (faster, answers), (plain, expected) = results
    assert len(plain) == 6
    assert faster == pytest.approx(plain, rel=1e-4 if strategy == "full" else 2e-3)
    for answer, other in zip(answers, expected, strict=True):
        for name in {"score", "scores", "value", "no_answer"} & set(answer):
            assert answer[name] == pytest.approx(other[name], abs=1e-4 if strategy == "full" else 5e-3), name


def check_that_company_changes_nothing(predictor: Predictor, table: pa.Table, answers: pa.Table) -> None:
    """A row is answered alone as it is among longer and shorter ones."""
    for i in (0, 5, 23):
        alone = predictor.predict(table.slice(i, 1)).to_pylist()[0]
        for name, value in answers.slice(i, 1).to_pylist()[0].items():
            same = isinstance(value, str) or name == "entities"
            assert alone[name] == (value if same else pytest.approx(value, abs=1e-4)), name


@pytest.mark.parametrize("kind", TASKS)
def test_a_model_memorizes_its_rows_and_beats_no_answer(kind: str, checkout: Path) -> None:
    """A model of the family that learns quickest is right on what it was shown, alone and in company, and as ONNX."""
    layers, epochs = TAKES.get(kind, (1, 30))
    source, task = tiny.of_family("modernbert", checkout / "encoder", layers=layers), TASKS[kind]
    data = encoded(kind, checkout / "encoded", source)
    entry = Finetune(data="d", encoder="e", epochs=epochs, batch_size=8, learning_rate=5e-3)
    torch.manual_seed(2)
    model = new_head.for_task(source, task)
    with fitting("finetune", "t", Resources()) as fit:
        fit(model, losses.for_kind(kind), RowBatches(data, 8, entry.epochs, 1, 0), entry, kind=kind)
    (checkout / "model").mkdir()
    model_folder.save(model, checkout / "model", source, task)
    predictor, table = Predictor.load(checkout / "model"), rows(kind)
    answers = predictor.predict(table)
    assert score(table, answers, task)["metrics"][task.metric] > 0.95
    check_that_company_changes_nothing(predictor, table, answers)
    (checkout / "onnx").mkdir()
    assert onnx_export.export(checkout / "model", checkout / "onnx", 18, 1e-3) < 1e-3
    onnx = Predictor.load(checkout / "onnx", "onnx")
    assert row_exactness.largest_difference(onnx) == 0
    exported = onnx.predict(table)
    assert score(table, exported, task)["metrics"] == pytest.approx(score(table, answers, task)["metrics"], abs=1e-3)


@pytest.mark.parametrize("kind", TASKS)
def test_a_baseline_predicts_every_kind(kind: str) -> None:
    table, task = rows(kind), TASKS[kind]
    fitted = baselines.for_task(task, Baseline(task="t")).fit(table)
    answers = fitted.predict(table)
    assert answers.schema.names == schema.PREDICTIONS[kind].names
    assert task.metric in score(table, answers, task)["metrics"]
    assert fitted.parameters > 0


def test_a_baseline_of_numbers_takes_texts_alone_too() -> None:
    table, task = rows("regression"), TASKS["regression"]
    alone = table.set_column(2, "text_pair", pa.array([""] * table.num_rows))
    answers = baselines.for_task(task, Baseline(task="t")).fit(alone).predict(alone)
    assert score(alone, answers, task)["metrics"]["pearson"] > 0.9, "the number is the text's"
    equal = table.set_column(2, "text_pair", pa.array(["x"] * table.num_rows))
    answers = baselines.for_task(task, Baseline(task="t")).fit(equal).predict(equal)
    assert answers.column("value").to_pylist() == pytest.approx([1.5] * table.num_rows), "no line, so the mean"


def test_a_baseline_answers_as_all_its_rows_do() -> None:
    table, task = rows("single"), TASKS["single"]
    one = table.filter(pa.compute.equal(table["label"], tiny.LABELS[1]))
    fitted = baselines.for_task(task, Baseline(task="t")).fit(one)
    answers = fitted.predict(table)
    assert {*answers.column("label").to_pylist()} == {tiny.LABELS[1]}
    assert fitted.parameters == 1
    questions = rows("span")
    none = questions.set_column(
        questions.schema.get_field_index("answers"),
        questions.schema.field("answers"),
        pa.array([[]] * questions.num_rows, questions.schema.field("answers").type),
    )
    assert baselines.for_task(TASKS["span"], Baseline(task="t")).fit(none).predict(none).num_rows == none.num_rows


def test_a_baseline_of_tags_takes_names_as_words() -> None:
    text = "U.S. men, Acme Inc. left Iran ; Iranian and Iranians stayed"
    places = ["U.S.", "Acme Inc.", "Iran"]
    names = [{"start": text.index(name), "end": text.index(name) + len(name), "label": "ORG"} for name in places]
    table = pa.table({"id": ["1"], "text": [text], "entities": [names]})
    for units, text_of_units in (("words", text), ("characters", "".join(places))):
        task = Task("t", "tagging", ("ORG",), "f1", units=units)
        fitted = baselines.for_task(task, Baseline(task="t")).fit(table)
        (answer,) = fitted.predict(pa.table({"id": ["1"], "text": [text_of_units]})).to_pylist()
        predicted = [text_of_units[entity["start"] : entity["end"]] for entity in answer["entities"]]
        assert predicted == (places if units == "words" else places[:2]), "a character is no edge of a word"


def test_options_that_a_kind_lacks_fail_in_one_sentence(checkout: Path) -> None:
    source = tiny.of_family("bert", checkout / "encoder")
    with pytest.raises(UsageError, match="rows of kind span support only the native head"):
        new_head.for_task(source, TASKS["span"], "linear")
    model = new_head.for_task(source, TASKS["choice"])
    (checkout / "model").mkdir()
    model_folder.save(model, checkout / "model", source, TASKS["choice"])
    predictor = Predictor.load(checkout / "model")
    with pytest.raises(InputError, match="row 1 has 2 choices; 3 are expected"):
        predictor.predict(pa.table({"text": ["a", "b"], "choices": [["a", "b", "c"], ["a", "b"]]}))
    with pytest.raises(InputError, match="'choices' holds string; lists of text is expected"):
        predictor.predict(pa.table({"text": ["a"], "choices": ["b"]}))


def test_windows_of_a_long_context_answer_together(checkout: Path) -> None:
    source, task = tiny.of_family("modernbert", checkout / "encoder"), TASKS["span"].with_(unanswerable=True)
    model = new_head.for_task(source, task)
    (checkout / "model").mkdir()
    model_folder.save(model, checkout / "model", source, task)
    predictor = Predictor.load(checkout / "model")
    context = "監督が語る、" * 80
    table = pa.table({"id": ["a", "b"], "question": ["何"] * 2, "context": [context, "犬"]})
    answers = predictor.predict(table).to_pylist()
    assert [answer["id"] for answer in answers] == ["a", "b"]
    assert answers[0]["best"] == context[answers[0]["start"] :][: len(answers[0]["best"])]
    for answer in answers:
        assert (answer["answer"] == "") == (answer["no_answer"] > 0)
        assert 0 < answer["score"] <= 1
