"""What a run was given reaches MLflow whole, whatever its keys are."""

import json
from pathlib import Path

import mlflow
import pytest

from pipelines.tracking import registry, runs, store, version_tags


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


@pytest.mark.slow
def test_a_version_links_to_the_runs_that_made_it_and_to_nothing_else(checkout: Path) -> None:
    client = store.connect()
    made = [runs.log(stage, {}, {}, {}) for stage in ("prepare@rows", "finetune@it")]
    stages = [{"stage": stage, "run": run} for stage, run in zip(("prepare@rows", "finetune@it"), made, strict=True)]
    stages += [{"stage": "](http://x", "run": made[0]}, {"stage": "evaluate@it", "run": "no run"}]
    client.create_registered_model("it")
    client.create_model_version("it", checkout.as_uri(), tags={"lineage": json.dumps(stages)})
    version_tags.link(registry.version("it", 1))
    experiment = store.experiment(client)
    links = [
        f"[{stage}](#/experiments/{experiment}/runs/{run})"
        for stage, run in zip(("prepare@rows", "finetune@it"), made, strict=True)
    ]
    assert client.get_model_version("it", "1").description == f"Runs: {links[1]}, {links[0]}"
    version_tags.describe(registry.version("it", 1), {"passed": True, "findings": []})
    assert client.get_model_version("it", "1").description.endswith(f"\n\nRuns: {links[1]}, {links[0]}")
    version_tags.tag(registry.version("it", 1), {"lineage": "not JSON"})
    version_tags.describe(registry.version("it", 1), {"passed": True, "findings": []})
    assert "Runs:" not in client.get_model_version("it", "1").description
    mlflow.set_tracking_uri(None)
