"""The doorway of a stage: its entry, its own flags, and those of every stage."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipelines.core import stage
from pipelines.core.errors import InputError, UsageError
from pipelines.graph import dvc_steps
from tests.support.places import ROOT


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str, **options: Any) -> list[tuple[tuple, dict]]:
    """What `main` was called with."""
    calls: list[tuple[tuple, dict]] = []
    monkeypatch.setattr(sys, "argv", ["stage", *arguments])
    Path("params.yaml").touch()
    stage.run("stage", lambda *arguments, **named: calls.append((arguments, named)), **options)
    return calls


def test_a_stage_has_an_entry_and_its_own_flags(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, "mine") == [(("mine",), {})]
    assert run(monkeypatch, "mine", strict="stop") == [(("mine",), {"strict": False})]
    assert run(monkeypatch, "mine", "--strict", strict="stop") == [(("mine",), {"strict": True})]


def test_a_stage_without_entries_takes_none(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, entry=False) == [((), {})]
    with pytest.raises(SystemExit) as refused:
        run(monkeypatch, "mine", entry=False)
    assert refused.value.code == 2
    assert "unrecognized arguments: mine" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run(monkeypatch)
    assert "the following arguments are required: entry" in capsys.readouterr().err


def test_another_stages_flag_is_refused(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        run(monkeypatch, "mine", "--strict")
    assert refused.value.code == 2
    assert "unrecognized arguments: --strict" in capsys.readouterr().err


def test_every_stage_can_be_quiet(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTLINE_QUIET", "")
    run(monkeypatch, "mine")
    assert not os.environ["BERTLINE_QUIET"]
    run(monkeypatch, "mine", "--quiet")
    assert os.environ["BERTLINE_QUIET"] == "1"


@pytest.mark.parametrize("debug", [False, True])
def test_a_mistake_prints_one_sentence_or_with_debug_a_traceback(
    debug: bool, checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(key: str) -> None:
        raise UsageError("params.yaml: wrong")

    Path("params.yaml").touch()
    monkeypatch.setattr(sys, "argv", ["stage", "mine", *(["--debug"] if debug else [])])
    with pytest.raises(SystemExit) as refused:
        stage.run("stage", wrong)
    assert refused.value.code == 2
    printed = capsys.readouterr().err
    assert printed.endswith("stage mine: error: params.yaml: wrong\n")
    assert ("Traceback" in printed) == debug


def test_a_lock_of_another_process_is_seen_and_an_own_one_kept(checkout: Path) -> None:
    assert not stage.runs_elsewhere("run", "all")
    code = "from pipelines.core import stage; import sys\n"
    code += "with stage.alone('run', 'all'): print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    ) as other:
        assert other.stdout
        assert other.stdout.readline() == b"held\n"
        for _ in range(2):
            assert stage.runs_elsewhere("run", "all")
            with pytest.raises(InputError, match="it is already running"), stage.alone("run", "all"):
                pass
        other.communicate(b"")
    assert not stage.runs_elsewhere("run", "all")
    with stage.alone("run", "all"):
        assert not stage.runs_elsewhere("run", "all")
        look = "from pipelines.core import stage; print(stage.runs_elsewhere('run', 'all'))"
        seen = subprocess.run(
            [sys.executable, "-c", look], capture_output=True, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True
        )
        assert seen.stdout == b"True\n", "the look did not free this process's lock"


def test_a_run_that_cannot_be_seen_keeps_dvcs_list(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Path("rwlock")
    file.write_text(json.dumps({"write": {"/a": {"pid": 2**22 - 1, "cmd": "dvc repro"}}}))
    monkeypatch.setattr(dvc_steps, "runs_elsewhere", lambda name, key: True)
    dvc_steps._remove_stale_locks(file)
    assert file.is_file()
    monkeypatch.setattr(dvc_steps, "runs_elsewhere", lambda name, key: False)
    dvc_steps._remove_stale_locks(file)
    assert not file.exists()
