"""The share of changed answers among live requests, held against the one that a replay foretold."""

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

from pipelines.evaluation import significance
from pipelines.evaluation.gates import Replay
from pipelines.serving.replayed_share import LOOK_ROWS, LiveShare, ReplayedShare
from pipelines.tracking.registry import Version

REPLAY = Replay(1000, 100, 1000.0, "a test", against=1, tolerance=0.1)


def version(replay: Any) -> Version:
    return Version("m", 2, {"verdict": json.dumps({"findings": [], "replay": replay})})


def live(changed: int, rows: int, copies: int = 1) -> LiveShare:
    """The share after so many different rows, each of which came so often."""
    share = LiveShare.of(version(REPLAY.numbers()))
    assert share
    for number in range(rows):
        answers = {"label": "a"}, {"label": "b" if number < changed else "a"}
        for _ in range(copies):
            share.add("single", {"text": str(number)}, *answers)
    return share


@pytest.mark.parametrize(
    ("changed", "rows", "verdict", "words"),
    [
        (0, 0, "", "no live row was compared yet; the replay said that 10.00% (8.29% to 12.02%) would change"),
        (10, 100, "as replayed", "10.00% (5.52% to 17.44%) of 100 live answers changed, as the replay said: 10.00%"),
        (3, 10, "as replayed", "30.00% (10.78% to 60.32%) of 10 live answers changed, as the replay said"),
        (30, 100, "more", "of 100 live answers changed, more than the replay said"),
        (0, 100, "fewer", "of 100 live answers changed, fewer than the replay said"),
    ],
)
def test_a_share_differs_only_if_the_intervals_are_apart(changed: int, rows: int, verdict: str, words: str) -> None:
    share = live(changed, rows)
    assert share.verdict == verdict
    assert words in share.sentence()
    assert share.sentence().startswith("m version 2 against version 1: ")
    numbers = share.numbers()
    assert (numbers["rows"], numbers["changed"], numbers["against"]) == (rows, changed, 1)


def test_a_row_that_comes_again_and_again_proves_no_more() -> None:
    once, often = live(3, 10), live(3, 10, copies=50)
    assert (often.rows, often.changed) == (500, 150)
    assert often.interval == pytest.approx(once.interval)
    assert often.verdict == "as replayed"


class Untouched(Counter[str]):
    """Counts that are not added up: they are too many to do so for each row of a request."""

    def total(self) -> int:
        raise AssertionError("all counts are added up")

    values = total  # type: ignore[assignment]


def test_a_row_is_counted_without_a_look_at_all_others() -> None:
    share = live(100, 1000, copies=3)
    share.counts = Untouched(share.counts)
    for number in range(2 * LOOK_ROWS):
        share.add("single", {"text": str(number % 7)}, {"label": "a"}, {"label": "a"})
    assert (share.rows, share.verdict) == (3200, "as replayed")
    counts = np.array(list(dict(share.counts).values()))
    assert share.interval == significance.share_interval(300 / 3200, significance.effective_size(counts))


def test_the_log_says_once_that_the_share_is_another(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET")
    live(400, 400)
    assert capsys.readouterr().err.count("more than the replay said") == 1
    live(10, 100)
    assert "replay" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "replay", [None, 3, {"answers": 0}, {"share": 2.0, "interval": [0, 1], "against": 1}, {"share": 0.1, "against": 1}]
)
def test_what_is_no_replay_is_none(replay: Any) -> None:
    assert ReplayedShare.of(version(replay)) is None
    assert ReplayedShare.of(Version("m", 2, {"verdict": "x"})) is None
    assert ReplayedShare.of(Version("m", 2, {})) is None
