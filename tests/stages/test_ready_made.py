"""The ready-made params files on their real corpora, with few rows and few steps: a run of each kind, or all runs.

That every file and every entry is right, tests/unit/core/test_checking.py shows.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.core import paths
from pipelines.graph import checking
from pipelines.stages import baseline, encode, evaluate, finetune, ingest, prepare, pretrain, report
from tests.support.places import MIRROR, ROOT, needs_mirror
from tests.support.ready_made import FILES, KINDS, few, one_of_each_kind

pytestmark = [needs_mirror, pytest.mark.slow, pytest.mark.real_data]


@pytest.mark.parametrize(
    "values",
    [
        *(pytest.param(one_of_each_kind(file), id=f"some of {file}") for file in KINDS),
        *(pytest.param(few(file), id=file, marks=pytest.mark.soak) for file in FILES),
    ],
)
def test_every_run_reaches_the_report(values: dict[str, Any], checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTLINE_MIRROR", str(MIRROR.resolve()))
    Path("encoders").symlink_to(ROOT / "encoders")
    Path("params.yaml").write_text(yaml.safe_dump(values))
    checking.check()
    for stage, section in ((ingest, "ingest"), (prepare, "prepare"), (encode, "encode"), (pretrain, "pretrain")):
        for key in values[section]:
            stage.main(key)
    for stage, section in ((finetune, "finetune"), (baseline, "baseline"), (evaluate, "evaluate")):
        for key in values[section]:
            stage.main(key)
    report.main()
    table = (paths.reports() / "table.txt").read_text()
    assert values["finetune"]
    for run in values["finetune"]:
        assert run in table
        record = json.loads(paths.metrics(run).read_text())
        assert record["rows"] > 5
        assert record["metric"] in record["metrics"]


@pytest.mark.soak  # tests/stages/test_graph.py compares the locks of the quickstart's graph
def test_bertline_run_writes_the_lock_that_dvc_repro_writes(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each from nothing, with the same threads: every byte of every output is the same."""
    monkeypatch.setenv("BERTLINE_MIRROR", str(MIRROR.resolve()))
    monkeypatch.setenv("PYTHONPATH", str(workspace))
    Path("params.yaml").write_text(yaml.safe_dump(few("choice")))
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q", "--no-scm"], check=True)
    lock, locks = Path("dvc.lock"), []
    for command in ("flows.cli", "run"), ("dvc", "repro", "-q"):
        subprocess.run([sys.executable, "-m", *command], check=True)
        locks.append(lock.read_text())
        lock.unlink()
        for folder in ("artifacts", "state", ".dvc/cache"):
            shutil.rmtree(folder)
    assert "finetune@codah" in locks[0]
    assert locks[0] == locks[1]
