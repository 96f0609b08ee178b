"""The texts of a command from standard input: the same rows as from a file of lines."""

import io
import sys
from pathlib import Path

import pytest

from flows.cli import text_inputs


def test_standard_input_is_divided_as_a_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\ufeff一行目\u2028続き\r\n\n二行目\x0b\x85\n三行目"
    (tmp_path / "rows.txt").write_text(text, encoding="utf-8", newline="")
    monkeypatch.setattr(sys, "stdin", io.StringIO(text, newline=""))
    read = text_inputs.rows("single", ["-"], {})
    assert read == text_inputs.rows("single", [str(tmp_path / "rows.txt")], {})
    assert [row["text"] for row in read] == ["一行目\u2028続き", "二行目\x0b\x85", "三行目"]
