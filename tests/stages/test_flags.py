"""What a stage takes on the command line, beside its entry: `prepare --strict`; report takes no entry."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pipelines.data.expectations import UNMATCHED
from tests.support.file_texts import SQUAD
from tests.support.places import ROOT

SENTENCE = f"dev has 1 {UNMATCHED}, such as ['1']"
WRONG_PLACE = json.dumps(SQUAD).replace('"answer_start": 3', '"answer_start": 4')
PREPARE = {"corpus": "custom", "source": ".", "kind": "span", "format": "squad", "files": {"dev": "questions.json"}}
PREPARE |= {"unanswerable": True}


@pytest.fixture(autouse=True)
def questions(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A corpus with an answer that does not stand at its place."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("BERTLINE_QUIET")
    monkeypatch.delenv("BERTLINE_STRICT", raising=False)
    Path("questions.json").write_text(WRONG_PLACE)
    Path("params.yaml").write_text(yaml.safe_dump({"prepare": {"it": PREPARE}}))


def stage(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"pipelines.stages.{arguments[0]}", *arguments[1:]]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_strict_stops_at_an_answer_that_does_not_stand_at_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    strict = stage("prepare", "it", "--strict")
    assert strict.returncode == 1
    assert SENTENCE in strict.stderr
    assert not Path("artifacts/rows/it").exists()
    process = stage("prepare", "it")
    assert process.returncode == 0
    assert SENTENCE in process.stderr
    assert Path("artifacts/rows/it/dev.parquet").is_file()
    monkeypatch.setenv("BERTLINE_STRICT", "1")  # for the whole graph, whose commands have no flags
    assert stage("prepare", "it").returncode == 1
    monkeypatch.delenv("BERTLINE_STRICT")
    Path("questions.json").write_text(json.dumps(SQUAD))
    assert stage("prepare", "it", "--strict").returncode == 0


def test_strict_is_an_option_of_prepare_only() -> None:
    for name in ("ingest", "encode", "evaluate"):
        refused = stage(name, "it", "--strict")
        assert refused.returncode == 2
        assert "unrecognized arguments: --strict" in refused.stderr


def test_report_takes_no_entry() -> None:
    refused = stage("report", "it")
    assert refused.returncode == 2
    assert "unrecognized arguments: it" in refused.stderr
    empty = stage("report")
    assert empty.returncode == 1
    assert empty.stderr == "report: error: params.yaml: no metrics to report; evaluate and pretrain write them\n"
