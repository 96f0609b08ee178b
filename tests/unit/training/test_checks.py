"""What an entry of finetune asks of a task that has it not is refused; what does nothing is said."""

import pytest

from pipelines.core.errors import UsageError
from pipelines.core.task import Task
from pipelines.entries.finetune import Finetune
from pipelines.training import checks
from tests.support import tiny

NUMBERS = Task("n", "regression", (), "pearson")
REFUSED = [
    (tiny.TASK, {"dev": "train"}, r"finetune\.x\.dev: the model learns from train; name another split"),
    (tiny.TASK, {"dev": "validation"}, r"finetune\.x\.dev: no split 'validation'; there are: "),
    (tiny.TASK, {"patience": 2}, r"finetune\.x\.patience: 2; it needs a split: set dev"),
    (NUMBERS, {"class_weights": "balanced"}, r"class_weights: rows of kind regression have no classes"),
    (NUMBERS, {"label_smoothing": 0.1}, r"label_smoothing: rows of kind regression have no labels"),
]
SAID = [
    ({"top_k": 2}, "top_k has an effect only if strategy is top_k"),
    ({"layer_learning_rates": [1e-3]}, "layer_learning_rates has an effect only if strategy is top_k"),
    ({"strategy": "frozen", "layer_decay": 0.5}, "layer_decay has an effect only if strategy is full"),
    ({"momentum": 0.9}, "momentum has an effect only if optimizer is sgd"),
]
UNSAID = [{"strategy": "top_k", "top_k": 1}, {"layer_decay": 0.5}, {"optimizer": "sgd", "momentum": 0.9}, {}]


def entry(more: dict) -> Finetune:
    return Finetune.model_validate({"data": "d", "encoder": "e"} | more)


@pytest.mark.parametrize(("task", "more", "message"), REFUSED)
def test_options_that_a_task_lacks_are_refused(task: Task, more: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        checks.finetune("x", entry(more), task)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        *((more, f"finetune x: {message}; here it has none\n") for more, message in SAID),
        *((more, "") for more in UNSAID),
    ],
)
def test_options_without_effect_are_reported(
    more: dict, message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    checks.finetune("x", entry(more), tiny.TASK)
    assert capsys.readouterr().err == message
