"""What a run was given reaches MLflow whole, whatever its keys are."""

from pathlib import Path

import mlflow
import pytest

from pipelines.tracking import runs


@pytest.mark.slow
def test_params_with_keys_that_are_no_names_are_logged(checkout: Path) -> None:
    params = {"task": "t", "behaviour": {"other brackets": {"replace": {"「(.+?)」": r"『\1』"}, "at_least": 0.7}}}
    run = mlflow.get_run(runs.log("evaluate@t", params, {"metrics": {"accuracy": 0.5}, "confusion": [[1]]}, {}))
    assert run.data.params == {
        "task": "t",
        "behaviour.other brackets.replace": str(params["behaviour"]["other brackets"]["replace"]),
        "behaviour.other brackets.at_least": "0.7",
    }
    assert run.data.metrics == {"metrics.accuracy": 0.5}
    mlflow.set_tracking_uri(None)
