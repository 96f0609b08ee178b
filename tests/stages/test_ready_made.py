"""The ready-made params files on their real corpora: every run of them with few rows and few steps."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pipelines.core import checking, paths
from pipelines.stages import baseline, encode, evaluate, finetune, ingest, prepare, pretrain, report
from tests.support.places import MIRROR, ROOT, needs_mirror
from tests.support.ready_made import FILES, few

pytestmark = [needs_mirror, pytest.mark.slow, pytest.mark.real_data]


@pytest.mark.parametrize("file", FILES)
def test_every_run_reaches_the_report(file: str, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTLINE_MIRROR", str(MIRROR.resolve()))
    shutil.copytree(ROOT / "encoders", "encoders", ignore=shutil.ignore_patterns("__pycache__"))
    values = few(file)
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
        for made in ("artifacts", "state", ".dvc/cache"):
            shutil.rmtree(made)
    assert "finetune@codah" in locks[0]
    assert locks[0] == locks[1]
