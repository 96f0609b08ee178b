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


def test_quality_counts_the_rows(folder: Path) -> None:
    quality = expectations.quality(folder, Task("t", "single", ("a", "b")))
    train = quality["splits"]["train"]
    assert train["rows"] == 6
    assert train["labels"] == {"a": 3, "b": 3}
    assert train["duplicates"] == {"rows": 1, "ids": ["train-1"]}
    assert train["near_duplicates"] == {"rows": 1, "ids": ["train-2"], "of": 4}
    assert train["empty"] == {"rows": 1, "ids": ["train-3"]}
    assert train["odd"]["replacement character"]["ids"] == train["odd"]["UTF-8 read as Latin-1"]["ids"] == ["train-4"]
    assert train["letters"] == {"japanese": 3, "latin": 2}
    assert train["characters"]["max"] == len(LONG)
    assert sum(train["lengths"].values()) == 6
    assert quality["shared_between_splits"] == {"train, test": {"rows": 1, "ids": ["test-0"]}}


@pytest.mark.parametrize(
    ("expect", "sentence"),
    [
        ({"min_rows": 3}, "test has 2 rows, min_rows expects 3"),
        ({"max_empty": 0.1}, r"train has 1 empty texts, such as \['train-3'\]"),
        ({"max_duplicates": 0.0}, r"train has 1 duplicate rows, such as \['train-1'\]"),
        ({"max_near_duplicates": 0.2}, r"train has 1 rows that are similar to another row, such as \['train-2'\]"),
        ({"no_leakage": True}, r"1 rows are in both of train, test, such as \['test-0'\]"),
    ],
)
def test_unexpected_rows_stop_the_stage_or_warn(
    expect: dict[str, Any],
    sentence: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quality = expectations.quality(folder, Task("t", "single", ("a", "b")))
    expectations.check(quality, Expect(), "it")
    with pytest.raises(InputError, match=sentence):
        expectations.check(quality, Expect(**expect), "it")
    monkeypatch.delenv("BERTLINE_QUIET")
    expectations.check(quality, Expect(**expect, warn=True), "it")
    assert capsys.readouterr().err.startswith("it: ")


def test_answers_that_do_not_stand_at_their_place_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [[{"text": "犬", "start": 0}], [{"text": "犬", "start": 1}], []]
    rows = [{"id": str(i), "question": "何？", "context": "犬が好き", "answers": a} for i, a in enumerate(answers)]
    tables.write(tmp_path / "dev.parquet", tables.batches(rows, schema.ROWS["span"]), schema.ROWS["span"])
    quality = expectations.quality(tmp_path, Task("t", "span", splits=("dev",)))
    assert quality["splits"]["dev"]["unmatched"] == {"rows": 1, "ids": ["1"]}
    assert quality["splits"]["dev"]["labels"] == {"answerable": 2, "unanswerable": 1}
    monkeypatch.delenv("BERTLINE_QUIET")
    expectations.check(quality, Expect(), "it")
    assert "1 rows with an answer that is not the text at its position, such as ['1']" in capsys.readouterr().err
    with pytest.raises(InputError, match="an answer that is not the text at its position"):
        expectations.check(quality, Expect(), "it", strict=True)


def warnings_of(
    folder: Path, task: Task, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch, **expect: Any
) -> list[str]:
    """What prepare says of rows, without the entry's name."""
    patch.delenv("BERTLINE_QUIET", raising=False)
    capsys.readouterr()
    expectations.check(expectations.quality(folder, task), Expect(**expect), "it")
    return [line.removeprefix("it: ") for line in capsys.readouterr().err.splitlines()]


def write(folder: Path, split: str, kind: str, *rows: dict[str, Any]) -> None:
    numbered = [{"id": f"{split}-{i}", **row} for i, row in enumerate(rows)]
    tables.write(folder / f"{split}.parquet", tables.batches(numbered, schema.ROWS[kind]), schema.ROWS[kind])


def test_dirty_labels_and_texts_are_reported_with_their_param(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = ["billing"] * 5 + ["Billing "] * 3 + ["ＢＩＬＬＩＮＧ"] + ["other"] * 3
    rows = [{"text": f"text {i}", "label": label} for i, label in enumerate(labels)]
    rows += [
        {"text": "text 0", "label": "other"},
        {"text": "text 1", "label": "billing"},
        {"text": " ", "label": "other"},
    ]
    write(tmp_path, "train", "single", *rows)
    write(tmp_path, "test", "single", {"text": "text 3", "label": "billing"}, {"text": "text 3", "label": "billing"})
    task = Task("t", "single", tuple(sorted({*labels})))
    assert warnings_of(tmp_path, task, capsys, monkeypatch) == [
        "train has 1 empty texts, such as ['train-14']; `expect: {max_empty: 0}` refuses them",
        "train has 2 duplicate rows, such as ['train-12', 'train-13']; `expect: {max_duplicates: 0}` refuses them",
        "train has 1 rows whose text has a different label in an earlier row, "
        "such as 'text 0' (train-0: billing; train-12: other); `expect: {max_conflicts: 0}` refuses them",
        "train: the labels 'Billing ' (3 rows) and 'billing' (6) differ only in case, width or spaces; "
        "`labels: {rename: ...}` can make them one",
        "train: the labels 'ＢＩＬＬＩＮＧ' (1 rows) and 'billing' (6) differ only in case, width or spaces; "
        "`labels: {rename: ...}` can make them one",
        "train has 1 labels with at most 2 rows, such as 'ＢＩＬＬＩＮＧ' (1); "
        "`labels: {rename: ...}` can map them to others",
        "test has 1 duplicate rows, such as ['test-1']; `expect: {max_duplicates: 0}` refuses them",
        "2 rows are in both of train, test, such as ['test-0']; `expect: {no_leakage: true}` refuses them",
    ]
    limits = {"max_empty": 0.5, "max_duplicates": 0.6, "max_conflicts": 0.1, "no_leakage": True, "warn": True}
    silent = warnings_of(tmp_path, task, capsys, monkeypatch, **limits)
    assert not [line for line in silent if "refuses" in line]
    with pytest.raises(InputError, match="1 rows whose text has a different label in an earlier row"):
        expectations.check(expectations.quality(tmp_path, task), Expect(max_conflicts=0.0), "it")


def test_a_label_that_only_the_test_has_is_a_doubt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for split, labels in (("train", "ab"), ("test", "abc")):
        write(
            tmp_path, split, "single", *({"text": f"{split} {i}", "label": labels[i % len(labels)]} for i in range(9))
        )
    task = Task("t", "single", ("a", "b", "c"))
    assert warnings_of(tmp_path, task, capsys, monkeypatch) == ["train has no row of 'c'; test has 3"]


def test_a_word_for_no_value_is_no_label(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "train", "single", *({"text": f"text {i}", "label": ("a", "NaN")[i % 2]} for i in range(9)))
    write(tmp_path, "test", "single", {"text": "text 9", "label": "a"})
    assert warnings_of(tmp_path, Task("t", "single", ("NaN", "a")), capsys, monkeypatch) == [
        "train: the label 'NaN' (4 rows) often stands for none; leave these cells empty, or choose the rows by `where`"
    ]


def test_clean_rows_give_no_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for split in ("train", "test"):
        write(tmp_path, split, "single", *({"text": f"{split} {i}", "label": "ab"[i % 2]} for i in range(8)))
    assert warnings_of(tmp_path, Task("t", "single", ("a", "b")), capsys, monkeypatch) == []


def test_a_pair_is_the_same_with_its_sides_swapped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = {"text": "a cat", "text_pair": "an animal", "label": "yes"}
    swapped = pair | {"text": "an animal", "text_pair": "a cat"}
    write(
        tmp_path,
        "train",
        "pair",
        pair,
        swapped,
        pair | {"label": "no"},
        *[pair | {"text": f"{i}"} for i in range(4)],
    )
    write(tmp_path, "test", "pair", swapped)
    task = Task("t", "pair", ("no", "yes"))
    quality = expectations.quality(tmp_path, task)
    assert quality["splits"]["train"]["swapped"] == {"rows": 1, "ids": ["train-1"]}
    assert quality["splits"]["train"]["conflicts"] == {
        "rows": 1,
        "ids": ["train-2"],
        "named": ["'a cat\\tan animal' (train-0: yes; train-2: no)"],
    }
    assert quality["shared_between_splits"]["train, test"] == {"rows": 1, "ids": ["test-0"]}
    printed = warnings_of(tmp_path, task, capsys, monkeypatch)
    assert "train has 1 pairs that an earlier row has with its texts swapped, such as ['train-1']" in printed
