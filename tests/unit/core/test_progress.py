"""Lines of progress where there is no terminal."""

import io
import sys
import time

import pytest

from pipelines.core.progress import PLAIN_SECONDS, progress, say


def test_a_rate_is_of_what_this_run_did(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    seconds = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: seconds)
    for before, rate in ((0, "0.5/s, about 180 s left"), (8, "0.1/s, about 900 s left")):
        with progress("training", 100, "steps", before) as advance:
            seconds += 2 * PLAIN_SECONDS / 3
            advance(before + 1)  # too early for a line
            seconds += PLAIN_SECONDS / 3 + 5
            advance(10, "loss 1.0000")
        assert capsys.readouterr().err == f"training: 10 of 100 steps loss 1.0000, {rate}\n"


def test_a_line_is_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """In two, a line of another thread, such as one of the request log, may come between them."""
    written: list[str] = []

    class Log(io.StringIO):
        def write(self, text: str) -> int:
            written.append(text)
            return len(text)

    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    monkeypatch.setattr(sys, "stderr", Log())
    say("a sentence")
    assert written == ["a sentence\n"]
