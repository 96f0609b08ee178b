"""The texts of a command from standard input: the same rows as from a file of lines."""

import io
import sys
from pathlib import Path

import pytest

from flows.cli import text_inputs
from pipelines.core.errors import InputError, UsageError


def test_standard_input_is_divided_as_a_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\ufeff一行目\u2028続き\r\n\n二行目\x0b\x85\n三行目"
    (tmp_path / "rows.txt").write_text(text, encoding="utf-8", newline="")
    monkeypatch.setattr(sys, "stdin", io.StringIO(text, newline=""))
    read = text_inputs.rows("single", ["-"], {})
    assert read == text_inputs.rows("single", [str(tmp_path / "rows.txt")], {})
    assert [row["text"] for row in read] == ["一行目\u2028続き", "二行目\x0b\x85", "三行目"]


@pytest.mark.parametrize("file", ["rows.txt", "rows.csv", "rows.jsonl"])
def test_a_regression_takes_texts_alone_from_any_place(file: str, tmp_path: Path) -> None:
    written = {"rows.txt": "犬\n猫\n", "rows.csv": "text\n犬\n猫\n", "rows.jsonl": '{"text": "犬"}\n{"text": "猫"}\n'}
    (tmp_path / file).write_text(written[file], encoding="utf-8")
    read = text_inputs.rows("regression", [str(tmp_path / file)], {})
    assert read == [{"text": "犬", "text_pair": ""}, {"text": "猫", "text_pair": ""}]


def test_a_line_with_more_columns_than_the_kind_has_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text("7\ta\tb\n")
    with pytest.raises(InputError, match=r"line 1: text and text_pair are expected, .* between them; it has 3 columns"):
        text_inputs.rows("pair", [str(tmp_path / "rows.txt")], {})
    assert text_inputs.rows("choice", [str(tmp_path / "rows.txt")], {}) == [{"text": "7", "choices": ["a", "b"]}]


@pytest.mark.parametrize("word", ["titels.csv", "nowhere/rows.TXT", "a.jsonl"])
def test_a_misspelt_file_is_no_text(word: str) -> None:
    with pytest.raises(UsageError, match="no such file; a text of this form is read from standard input"):
        text_inputs.rows("single", [word], {})
    with pytest.raises(UsageError, match="no such file"):
        text_inputs.text(word)


@pytest.mark.parametrize("word", ["What is in rows.csv", "end.", ".txt", "v1.2", "犬"])
def test_a_text_with_a_dot_is_a_text(word: str) -> None:
    assert text_inputs.rows("single", [word], {}) == [{"text": word}]


def test_a_closed_standard_input_is_no_terminal_and_has_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """`bertline predict NAME <&-`, as some services start their programs."""
    monkeypatch.setattr(sys, "stdin", None)
    assert not text_inputs.is_terminal()
    for words in ([], ["-"]):
        with pytest.raises(UsageError, match="standard input is closed"):
            text_inputs.rows("single", words, {})
    with pytest.raises(UsageError, match="standard input is closed"):
        text_inputs.text("-")
