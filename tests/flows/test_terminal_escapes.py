"""What others wrote into a ledger, a tag or a log is printed as letters: it moves no cursor and makes no line."""

import io
import json
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pipelines.core.errors import InputError, one_line, printable
from pipelines.core.progress import say
from pipelines.evaluation.gates import Finding
from pipelines.graph import run_display
from pipelines.lifecycle import history, lineage
from pipelines.tracking.ledger_events import Entry, Event, State

CLEAR, TITLE, C1, BIDI = "\x1b[2J\x1b[H", "\x1b]0;mine\x07", "\x9b31m", "\u202egnp.exe\u2066"
ATTACK = f"good{CLEAR}{TITLE}{C1}{BIDI}\r\n   9  2026-11-01  promote  version 9, the owner: fine\u2028\x00\x7f\ud800"


def lines_and_controls(text: str) -> tuple[int, list[str]]:
    """The number of lines, and the characters that a terminal obeys, or that no file can hold, instead of showing."""
    controls = [c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    return len(text.splitlines()), controls


def test_letters_stay_and_control_characters_are_escaped() -> None:
    assert printable("新しい報告　を 100% é \\n 😀") == "新しい報告　を 100% é \\n 😀"
    assert printable("a\nb\tc\x1b[0m") == r"a\nb\tc\u001b[0m"
    assert printable("a\nb\tc\x9b", keep="\n\t") == "a\nb\tc\\u009b"
    assert lines_and_controls(printable(ATTACK)) == (1, [])
    assert json.loads(printable(json.dumps({"a": ATTACK}, ensure_ascii=False))) == {"a": ATTACK}


def test_a_history_has_one_line_per_event() -> None:
    verdict = {"findings": [Finding(f"rule{ATTACK}", 0, 0, True, f"sentence{ATTACK}").__dict__]}
    event = Event("id", "promote", 1, None, 0, "", f"actor{ATTACK}", f"reason{ATTACK}", verdict)
    entry = Entry(1, 0, event, "")
    state = State((entry,), (entry,), (replace(entry, number=2),), (f"event{ATTACK}",), (1,))
    record = history.told("news", state, {1})
    assert lines_and_controls(history.plain(record)) == (6, [])
    assert history.plain(record).count("good") == 6
    at = {"model": "news", "at": "2026", "champion": 1, "event": record["events"][0]}
    assert lines_and_controls(history.plain_at(at)) == (1, [])


def test_a_lineage_has_one_line_per_fact() -> None:
    stage = {"stage": f"s{ATTACK}", "run": f"r{ATTACK}", "read": {f"p{ATTACK}": f"m{ATTACK}"}, "wrote": {}}
    finding = Finding("rule", 0, 0, True, f"sentence{ATTACK}").__dict__
    version: dict[str, Any] = {
        "model": f"n{ATTACK}",
        "version": 1,
        "champion": True,
        "commit": f"c{ATTACK}",
        "dirty": True,
    }
    version |= {
        "verdict": {"findings": [finding]},
        "parents": [{"model": f"t{ATTACK}", "version": 2}],
        "stages": [stage],
    }
    assert lines_and_controls(lineage.plain_model(version)) == (5, [])
    data = {"paths": {f"p{ATTACK}": "m"}, "wrote": [f"s{ATTACK}"], "read": [f"s{ATTACK}"], "versions": [version]}
    assert lines_and_controls(lineage.plain_data(data)) == (4, [])


def test_a_board_shows_the_lines_of_a_stage_s_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    log = tmp_path / "log"
    log.write_bytes(f"one\t{CLEAR}{TITLE}{C1}{BIDI}\n".encode())
    shown = run_display.Board()
    shown.start("stage", log, 0)
    shown.refresh()
    printed = capsys.readouterr().err
    assert lines_and_controls(printed.replace("\t", "")) == (2, [])
    assert run_display.last_lines(log)[0].startswith("one\t\\u001b[2J")
    console = Console(record=True, force_terminal=True, width=200, file=io.StringIO())
    console.print(shown._table())
    assert CLEAR not in console.export_text(styles=True)


def test_errors_and_notes_hold_no_control_characters(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    assert lines_and_controls(one_line(InputError(f"no registered model 'x'; there are: {ATTACK}"), 1200)) == (1, [])
    say(f"news: {ATTACK}")
    assert lines_and_controls(capsys.readouterr().err) == (2, [])  # a line that is made of lines of ours stays so
