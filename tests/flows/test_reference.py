"""The reference of the commands: its pages show what the commands print today, in a project that they make."""

from pathlib import Path

import pytest

from docs import reference
from tests.flows.test_help import GROUP


@pytest.mark.slow
def test_the_pages_are_what_the_commands_print(tmp_path: Path) -> None:
    reference.write(tmp_path / "reference")
    written = {file.name: file.read_text(encoding="utf-8") for file in reference.FOLDER.glob("*.md")}
    made = {file.name: file.read_text(encoding="utf-8") for file in (tmp_path / "reference").iterdir()}
    assert made == written, "run python docs/reference.py"


def test_every_command_stands_in_the_reference() -> None:
    pages = [file.read_text(encoding="utf-8") for file in reference.FOLDER.glob("*.md")]
    headings = [line.removeprefix("## ") for page in pages for line in page.splitlines() if line.startswith("## ")]
    assert sorted(headings) == sorted(GROUP.commands)
    assert max(len(page.splitlines()) for page in pages) <= 200


def test_what_changes_is_replaced_in_one_place() -> None:
    assert reference.normal("key-1-deadbeef signs  \n2026-01-02T03:04:05+00:00 " + "a" * 32) == (
        "key-1-0123abcd signs\n2026-11-28T09:00:00+00:00 0123456789abcdef0123456789abcdef\n"
    )
