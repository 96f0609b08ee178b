"""What of a stage that ran goes to MLflow: the report's page and tables are files of its run."""

import json
import os
from pathlib import Path
from typing import Any

import mlflow
import pytest
import yaml

from flows import retrain
from pipelines.core import json_file, paths, provenance
from pipelines.graph import executor
from pipelines.lifecycle import registration
from pipelines.tracking import runs


def ran(*outs: str) -> dict[str, Any]:
    """What dvc.lock has of a stage that wrote these paths."""
    return {"outs": [{"path": out, "md5": "0" * 32} for out in outs]}


def test_only_the_reports_run_gets_the_report_folder(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = {"report": ran("artifacts/reports"), "finetune@it": ran("artifacts/models/it")}
    Path("dvc.lock").write_text(yaml.safe_dump({"stages": lock}))
    Path("params.yaml").write_text("finetune: {it: {epochs: 1}}\n")
    logged: dict[str, tuple] = {}
    monkeypatch.setattr(runs, "log", lambda stage, *rest: logged.__setitem__(stage, rest))
    retrain.log_runs.fn([*lock])
    assert logged["report"][3] == paths.reports()
    assert logged["finetune@it"][3] is None


def test_params_that_were_edited_after_the_training_are_not_those_of_the_version(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    stage = ran("artifacts/models/it") | {"params": {"params.yaml": {"finetune.it": {"epochs": 3}}}}
    paths.DVC_LOCK.write_text(yaml.safe_dump({"stages": {"finetune@it": stage}}))
    logged: list[dict[str, Any]] = []
    monkeypatch.setattr(runs, "log", lambda stage, params, *rest: logged.append(params))
    monkeypatch.setattr(runs, "find", lambda *stage: "")
    for epochs in (3, 1):
        Path("params.yaml").write_text(f"finetune: {{it: {{epochs: {epochs}}}}}\n")
        assert json.loads(registration.provenance_tags("it")["params"]) == {"epochs": 3}
        warned = "it: params.yaml was edited since it was trained" in capsys.readouterr().err
        assert warned == (epochs == 1)
        registration.log_runs(["finetune@it"])
    assert logged == [{"epochs": 3}] * 2


@pytest.mark.slow
def test_a_training_is_one_run_with_its_curve_all_its_params_and_its_time(checkout: Path) -> None:
    folder = paths.model("it")
    folder.mkdir(parents=True)
    curve = [[1, {"loss": 2.0}], [5, {"loss": 0.5, "accuracy": 0.75}]]
    (folder / provenance.TRAINING).write_text(json.dumps({"steps": 5, "curve": curve}))
    provenance.write(folder, "finetune", {"epochs": 1, "seed": 1, "fit": {"warmup": 0.1}}, [])
    Path("dvc.lock").write_text(yaml.safe_dump({"stages": {"finetune@it": ran(str(folder))}}))
    Path("params.yaml").write_text("finetune: {it: {epochs: 1}}\n")
    log = executor.log_of("finetune@it")
    log.parent.mkdir(parents=True)
    log.write_text("trained")
    os.utime(log, (1_800_000_060, 1_800_000_060))
    json_file.write(executor.SECONDS_FILE, {"finetune@it": 60.5})
    retrain.log_runs.fn(["finetune@it"])
    client = mlflow.MlflowClient()
    [run] = client.search_runs([client.get_experiment_by_name("bertline").experiment_id])
    assert run.data.params == {"epochs": "1", "seed": "1", "fit.warmup": "0.1"}
    assert run.data.metrics == {"final_loss": 0.5, "seconds": 60.5, "training.loss": 0.5, "training.accuracy": 0.75}
    history = client.get_metric_history(run.info.run_id, "training.loss")
    assert [(point.step, point.value) for point in history] == [(1, 2.0), (5, 0.5)]
    assert (run.info.start_time, run.info.end_time) == (1_799_999_999_500, 1_800_000_060_000)
    assert (run.info.status, run.info.run_name) == ("FINISHED", "finetune@it")
    mlflow.set_tracking_uri(None)


@pytest.mark.slow
def test_the_reports_files_are_artifacts_of_its_run(checkout: Path) -> None:
    paths.reports().mkdir(parents=True)
    for name in ("index.html", "table.md", "table.txt"):
        (paths.reports() / name).write_text(name)
    run = runs.log("report", {}, {}, {}, paths.reports())
    artifacts = mlflow.MlflowClient().list_artifacts(run)
    assert sorted(artifact.path for artifact in artifacts) == ["index.html", "table.md", "table.txt"]
    mlflow.set_tracking_uri(None)
