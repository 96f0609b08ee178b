"""Predictions that do not fit their rows are refused in one sentence; in another order they are joined by id."""

import pyarrow as pa
import pytest

from pipelines.core.errors import InputError
from pipelines.core.task import Task
from pipelines.evaluation.prediction_scores import labelled, score

TASK = Task("t", "single", ("a", "b"), "accuracy")
ROWS = pa.table({"id": ["1", "2", "3"], "text": ["x", "y", "z"], "label": ["a", "b", "b"]})


def answers(ids: list[str], labels: list[str]) -> pa.Table:
    return pa.table({"id": ids, "label": labels})


def test_predictions_are_joined_with_rows_by_id() -> None:
    assert score(ROWS, answers(["3", "1", "2"], ["b", "a", "a"]), TASK)["metrics"]["accuracy"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("predictions", "message"),
    [
        (answers(["1", "3"], ["a", "b"]), "1 rows have no prediction, such as '2'"),
        (answers(["1", "2", "3", "4"], ["a"] * 4), "4 predictions for 3 rows; each row needs exactly one"),
        (answers(["1", "2", "3", "3"], ["a"] * 4), "4 predictions for 3 rows; each row needs exactly one"),
        (answers(["1", "2", "3"], ["a", "c", "b"]), "the label 'c' is not one of a, b"),
    ],
)
def test_predictions_of_other_rows_are_refused(predictions: pa.Table, message: str) -> None:
    with pytest.raises(InputError) as refused:
        score(ROWS, predictions, TASK)
    assert str(refused.value) == message


def test_rows_without_a_label_are_not_scored() -> None:
    predictions = answers(["1", "2", "3"], ["a", "b", "b"])
    some = ROWS.set_column(2, "label", pa.array(["a", None, "b"]))
    assert labelled(some, TASK)
    with pytest.raises(InputError, match="the row '2' has no label; a split without labels cannot be scored"):
        score(some, predictions, TASK)
    assert not labelled(ROWS.set_column(2, "label", pa.nulls(3, pa.string())), TASK)
    assert not labelled(ROWS.drop_columns("label"), TASK)
