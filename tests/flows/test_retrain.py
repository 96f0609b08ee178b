"""Retraining on a small graph: what it does after a failure, what it holds meanwhile, and what it refuses at once."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pyarrow as pa
import pytest
import yaml
from dvc.repo import Repo

from flows import prefect_events, retrain
from pipelines.core import json_file, paths, schema, tables
from pipelines.core.errors import InputError, UsageError
from pipelines.graph import executor, lockfile
from pipelines.inference.predictor import Predictor
from pipelines.lifecycle import registration
from pipelines.tracking import registry, runs, store
from tests.support import stores, tiny
from tests.support.places import ROOT

STAGES = {
    "finetune": {"cmd": "cp -r model artifacts/models/tiny", "deps": ["model"], "outs": ["artifacts/models/tiny"]},
    "evaluate": {
        "cmd": "cat whole && cp -r said artifacts/predictions/tiny",
        "deps": ["artifacts/models/tiny", "said"],
        "outs": ["artifacts/predictions/tiny"],
    },
}


@pytest.fixture
def graph(checkout: Path) -> Iterator[Path]:
    """A model's two stages, and one of no model; but for the first they fail while there is no file `whole`."""
    Repo.init(no_scm=True).close()
    graph: dict[str, Any] = {name: {"foreach": {"tiny": {}}, "do": stage} for name, stage in STAGES.items()}
    graph["other"] = {"cmd": "cat whole > other", "outs": ["other"]}
    Path("dvc.yaml").write_text(yaml.safe_dump({"stages": graph}))
    Path("params.yaml").write_text(tiny.PARAMS)
    tiny.classifier(checkout / "model")
    rows = pa.Table.from_pylist([{"id": "1", "text": "犬", "label": tiny.LABELS[0]}], schema.ROWS["single"])
    for split in ("train", "test"):
        tables.write(paths.rows("rows") / f"{split}.parquet", rows.to_batches(), rows.schema)
    tiny.TASK.with_(splits=("train", "test")).save(paths.rows("rows"))
    answers = Predictor.load(checkout / "model").predict(rows)
    tables.write(checkout / "said/test.parquet", answers.to_batches(), answers.schema)
    for folder in ("models", "predictions"):
        Path("artifacts", folder).mkdir(exist_ok=True)
    yield checkout
    mlflow.set_tracking_uri(None)


def logged(stage: str) -> bool:
    return bool(runs.find(stage, lockfile.outputs(stage, lockfile.locked())))


@pytest.mark.slow
@pytest.mark.usefixtures("graph")
def test_stages_that_ran_before_a_failure_are_logged() -> None:
    with pytest.raises(InputError, match="evaluate@tiny failed"):
        retrain.retrain()
    assert list(lockfile.locked()) == ["finetune@tiny"]
    Path("whole").touch()
    assert executor.run(["evaluate@tiny"]) == ["evaluate@tiny"]  # by hand, outside of any flow
    json_file.write(prefect_events.TOLD, {"data": "a delivery", "drift daily": "2026-11-23"})
    (version,) = retrain.retrain()
    assert json_file.mapping(prefect_events.TOLD) == {"drift daily": "2026-11-23"}, (
        "the same delivery would be new again"
    )
    assert logged("finetune@tiny")
    assert logged("evaluate@tiny")
    assert '"run": ""' not in version.tags["lineage"]
    assert json.loads(version.tags["card"])["run"] == "tiny"
    assert len(of_stages()) == 3
    retrain.retrain()
    assert len(of_stages()) == 3, "a stage that has a run is not logged again"


def of_stages() -> list[Any]:
    runs: list[Any] = mlflow.search_runs(
        experiment_names=[store.EXPERIMENT], filter_string="tags.stage LIKE '%'", output_format="list"
    )
    return runs


@pytest.mark.slow
@pytest.mark.usefixtures("graph")
def test_artefacts_are_locked_during_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("whole").touch()
    refusals = []

    def register(*arguments: Any, plain: Any = registry.register) -> registry.Version:
        refusals.append(another_run())
        version: registry.Version = plain(*arguments)
        return version

    monkeypatch.setattr(registry, "register", register)
    retrain.retrain(["tiny"])
    assert sorted(lockfile.locked()) == ["evaluate@tiny", "finetune@tiny"], "what the model needs, and no other stage"
    (refused,) = refusals
    assert "it is already running (process " in refused
    assert another_run() == ""


def another_run() -> str:
    """What `bertline run` says in another process: the kernel's locks are of processes."""
    command = [sys.executable, "-c", "from pipelines.graph import executor; executor.run()"]
    done = subprocess.run(command, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


@pytest.mark.slow
@pytest.mark.usefixtures("graph")
def test_an_unknown_name_is_refused_before_anything_runs() -> None:
    with pytest.raises(UsageError, match=r"no entry 'tinny' \(did you mean 'tiny'"):
        retrain.retrain(["tinny"])
    assert not paths.DVC_LOCK.exists()


@pytest.mark.slow
@pytest.mark.usefixtures("graph")
def test_a_copied_checkout_is_refused_before_anything_runs(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = stores.place_in(checkout)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    mlflow.MlflowClient(f"sqlite:///{database}").create_experiment(store.EXPERIMENT, "file:///elsewhere/artifacts")
    with pytest.raises(InputError, match="its database names files in /elsewhere"):
        retrain.retrain(["tiny"])
    assert not paths.DVC_LOCK.exists()


def test_without_git_the_commit_is_unknown(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(checkout))
    assert registration.git_commit() == {}
