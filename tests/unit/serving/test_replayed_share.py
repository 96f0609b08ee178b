"""The share of changed answers among live requests, held against the one that a replay foretold."""

import json
from typing import Any

import pytest

from pipelines.evaluation.gates import Replay
from pipelines.serving.replayed_share import LiveShare, Replayed
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
    assert Replayed.of(version(replay)) is None
    assert Replayed.of(Version("m", 2, {"verdict": "x"})) is None
    assert Replayed.of(Version("m", 2, {})) is None
