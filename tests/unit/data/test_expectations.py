"""What rows are like is told in numbers, and what they should be like stops the graph with the rows' ids."""

from pathlib import Path
from typing import Any

import pytest

from pipelines.core import schema, tables
from pipelines.core.errors import InputError
from pipelines.core.task import Task
from pipelines.data import expectations
from pipelines.entries.prepare import Expect

LONG = (
    "昨日の試合は延長の末に決着し、監督は選手たちの粘り強さをたたえた。雨の中でも客席は最後まで埋まり、"
    "帰りの電車は遅くまで混み合っていたという。次の一戦は来週の日曜日に隣の県の競技場で開かれる。"
)
TRAIN = [LONG, LONG, LONG.replace("監督", "主将"), "", "caf\u00c3\u00a9 \ufffd", "plain text"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split, texts in {"train": TRAIN, "test": ["plain text", "犬"]}.items():
        rows = [{"id": f"{split}-{i}", "text": text, "label": "ab"[i % 2]} for i, text in enumerate(texts)]
        tables.write(tmp_path / f"{split}.parquet", tables.batches(rows, schema.ROWS["single"]), schema.ROWS["single"])
    return tmp_path


def test_rows_are_told_in_numbers(folder: Path) -> None:
    found = expectations.quality(folder, Task("t", "single", ("a", "b")))
    train = found["splits"]["train"]
    assert train["rows"] == 6
    assert train["labels"] == {"a": 3, "b": 3}
    assert train["duplicates"] == {"rows": 1, "ids": ["train-1"]}
    assert train["near_duplicates"] == {"rows": 1, "ids": ["train-2"], "of": 4}
    assert train["empty"] == {"rows": 1, "ids": ["train-3"]}
    assert train["odd"]["replacement character"]["ids"] == train["odd"]["UTF-8 read as Latin-1"]["ids"] == ["train-4"]
    assert train["letters"] == {"japanese": 3, "latin": 2}
    assert train["characters"]["max"] == len(LONG)
    assert sum(train["lengths"].values()) == 6
    assert found["shared_between_splits"] == {"train, test": {"rows": 1, "ids": ["test-0"]}}


@pytest.mark.parametrize(
    ("expect", "sentence"),
    [
        ({"min_rows": 3}, "test has 2 rows, min_rows expects 3"),
        ({"max_empty": 0.1}, r"train has 1 empty texts, such as \['train-3'\]"),
        ({"max_duplicates": 0.0}, r"train has 1 duplicate rows, such as \['train-1'\]"),
        ({"max_near_duplicates": 0.2}, r"train has 1 rows similar to another, such as \['train-2'\]"),
        ({"no_leakage": True}, r"1 rows are in both of train, test, such as \['test-0'\]"),
    ],
)
def test_what_is_not_as_expected_stops_or_is_said(
    expect: dict[str, Any],
    sentence: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = expectations.quality(folder, Task("t", "single", ("a", "b")))
    expectations.check(found, Expect(), "it")
    with pytest.raises(InputError, match=sentence):
        expectations.check(found, Expect(**expect), "it")
    monkeypatch.delenv("BERTLINE_QUIET")
    expectations.check(found, Expect(**expect, warn=True), "it")
    assert capsys.readouterr().err.startswith("it: ")


def test_answers_that_do_not_stand_at_their_place_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [[{"text": "犬", "start": 0}], [{"text": "犬", "start": 1}], []]
    rows = [{"id": str(i), "question": "何？", "context": "犬が好き", "answers": a} for i, a in enumerate(answers)]
    tables.write(tmp_path / "dev.parquet", tables.batches(rows, schema.ROWS["span"]), schema.ROWS["span"])
    found = expectations.quality(tmp_path, Task("t", "span", splits=("dev",)))
    assert found["splits"]["dev"]["unmatched"] == {"rows": 1, "ids": ["1"]}
    assert found["splits"]["dev"]["labels"] == {"answerable": 2, "unanswerable": 1}
    monkeypatch.delenv("BERTLINE_QUIET")
    expectations.check(found, Expect(), "it")
    assert "1 rows with an answer that is not the text at its position, such as ['1']" in capsys.readouterr().err
    with pytest.raises(InputError, match="an answer that is not the text at its position"):
        expectations.check(found, Expect(), "it", strict=True)
