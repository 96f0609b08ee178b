"""What of a stage that ran goes to MLflow: the report's page and tables are files of its run."""

from pathlib import Path
from typing import Any

import mlflow
import pytest
import yaml

from flows import retrain
from pipelines.core import paths
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
    assert logged["report"][-1] == paths.reports()
    assert logged["finetune@it"][-1] is None


@pytest.mark.slow
def test_the_reports_files_are_artifacts_of_its_run(checkout: Path) -> None:
    paths.reports().mkdir(parents=True)
    for name in ("index.html", "table.md", "table.txt"):
        (paths.reports() / name).write_text(name)
    run = runs.log("report", {}, {}, {}, paths.reports())
    artifacts = mlflow.MlflowClient().list_artifacts(run)
    assert sorted(artifact.path for artifact in artifacts) == ["index.html", "table.md", "table.txt"]
    mlflow.set_tracking_uri(None)
