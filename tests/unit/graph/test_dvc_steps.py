"""DVC's lock and dvc.lock around a run: how long a run waits, and that dvc.lock stays whole."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from dvc.repo import Repo
from dvc.utils.serialize import _yaml as dvc_yaml

from pipelines.core import locks, paths
from pipelines.core.errors import InputError
from pipelines.graph import dvc_steps, executor
from pipelines.graph.run_display import Board

# another command takes DVC's lock as soon as the stage has begun
BUSY = "flock .dvc/tmp/lock sh -c 'touch busy; sleep 1.5' >/dev/null 2>&1 & until test -e busy; do sleep 0.05; done"
FIRST = {"first": {"cmd": "echo 1 > first.txt", "outs": ["first.txt"]}}


@pytest.fixture
def impatient(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout of DVC in which nobody waits longer than a moment."""
    Repo.init(no_scm=True).close()
    Path("params.yaml").write_text("resources: {threads: 1}\n")
    monkeypatch.setattr(dvc_steps, "PATIENCE_SECONDS", 0)
    monkeypatch.setattr("dvc.lock.DEFAULT_TIMEOUT", 0.1)


def graph(stages: dict[str, Any]) -> None:
    Path("dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))


@pytest.mark.usefixtures("impatient")
def test_a_stage_that_has_ended_waits_for_dvc_as_long_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    board, lines = Board(), []
    monkeypatch.setattr(board, "tell", lambda line, *place, **how: lines.append(line))
    graph({"a": {"cmd": f"{BUSY}; echo a > a.txt", "outs": ["a.txt"]}})
    assert executor.run(board=board) == ["a"]
    assert sum("waits for another DVC command" in line for line in lines) == 1
    assert "a.txt" in Path("dvc.lock").read_text()


@pytest.mark.usefixtures("impatient")
def test_what_has_not_begun_does_not_wait_for_ever() -> None:
    refused = pytest.raises(InputError, match="another DVC command is using this checkout")
    with Repo(".") as repo, Repo(".") as other, dvc_steps.locked(other), refused, dvc_steps.locked(repo):
        pass


@pytest.mark.usefixtures("impatient")
def test_dvc_lock_stays_whole_while_the_next_one_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of it that ends at the end of a stage, or behind a path, would look like a whole file."""
    graph(FIRST)
    executor.run()
    before, meanwhile, dump = paths.DVC_LOCK.read_bytes(), [], dvc_yaml._dump
    with monkeypatch.context() as patch:
        patch.setattr(dvc_yaml, "_dump", lambda *to: meanwhile.append(paths.DVC_LOCK.read_bytes()) or dump(*to))
        graph(FIRST | {"second": {"cmd": "echo 2 > second.txt", "outs": ["second.txt"]}})
        assert executor.run() == ["second"]
    after = paths.DVC_LOCK.read_bytes()
    assert meanwhile == [before, after]  # the second time for the order of its stages
    paths.DVC_LOCK.unlink()
    with Repo(".") as repo:
        repo.reproduce()
    assert paths.DVC_LOCK.read_bytes() == after


def test_a_run_that_cannot_be_seen_keeps_dvcs_list(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Path("rwlock")
    file.write_text(json.dumps({"write": {"/a": {"pid": 2**22 - 1, "cmd": "dvc repro"}}}))
    monkeypatch.setattr(locks, "runs_elsewhere", lambda name, key: True)
    dvc_steps._remove_stale_locks(file)
    assert file.is_file()
    monkeypatch.setattr(locks, "runs_elsewhere", lambda name, key: False)
    dvc_steps._remove_stale_locks(file)
    assert not file.exists()
