"""The doorway of a stage: its entry, its own flags, and those of every stage."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from pipelines.core import stage
from pipelines.core.errors import UsageError


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
