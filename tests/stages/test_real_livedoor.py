"""The keynote's experiment on the real corpus, all of its runs with few steps."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pipelines.core import tables
from pipelines.graph import executor
from tests.support.places import MIRROR, ROOT, needs_mirror

RUNS = {f"livedoor-{run}" for run in ("full", "adapted", "top2", "frozen", "int8", "drop2", "svm")}


@needs_mirror
@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.real_data
def test_params_livedoor_runs_to_its_table(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTLINE_MIRROR", str(MIRROR.resolve()))
    shutil.rmtree("samples")
    params = yaml.safe_load((ROOT / "params" / "livedoor.yaml").read_text())
    params["pretrain"]["livedoor-encoder"]["epochs"] = 0.02
    for run in [*params["finetune"].values(), params["compress"]["livedoor-drop2"]]:
        run["epochs"] = 1
    (workspace / "params.yaml").write_text(yaml.safe_dump(params))
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q", "--no-scm"], check=True)

    assert len(executor.run([])) == 23
    assert {path.stem for path in Path("artifacts/metrics").iterdir()} == {*RUNS, "livedoor-encoder"}
    for run in RUNS:
        assert tables.read(Path("artifacts/predictions") / run / "test.parquet").num_rows == 900
        assert run in Path("artifacts/reports/table.txt").read_text()
    baseline = json.loads(Path("artifacts/metrics/livedoor-svm.json").read_text())["metrics"]["accuracy"]
    assert baseline == pytest.approx(0.774, abs=0.03)
    passages = tables.read(Path("artifacts/rows/livedoor-passages/train.parquet"))
    articles = {row_id.rpartition("-")[0] for row_id in passages.column("id").to_pylist()}
    tested = tables.read(Path("artifacts/rows/livedoor/test.parquet")).column("id").to_pylist()
    assert 7367 - 900 - 20 < len(articles) <= 7367 - 900
    assert not articles & set(tested)
    assert os.environ["BERTLINE_MIRROR"] not in Path("dvc.lock").read_text()
