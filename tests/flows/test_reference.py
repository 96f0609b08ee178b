"""The reference of the commands: its pages show what the commands print today, in a project that they make."""

from pathlib import Path

import pytest

from docs import reference
from tests.flows.test_help import GROUP

TRAINED = ("decide.md", "serve.md")  # what a trained model says depends on the processor


def written() -> dict[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in reference.FOLDER.glob("*.md")}


@pytest.mark.slow
def test_commands_print_what_the_pages_show() -> None:
    page = "".join(written().values())
    steps = list(reference.walked(with_model=False))
    assert [step.line for step in steps if reference.block(step) not in page] == [], "run python docs/reference.py"
    assert len(steps) >= 20


@pytest.mark.soak  # it trains a model, registers it and scores with it, as tests/flows/test_first_hour.py does
def test_the_pages_are_what_the_commands_print(tmp_path: Path) -> None:
    reference.write(tmp_path / "reference")
    made = {file.name: file.read_text(encoding="utf-8") for file in (tmp_path / "reference").iterdir()}
    shown = written()
    for name in TRAINED:
        made[name], shown[name] = reference.unlearned(made[name]), reference.unlearned(shown[name])
    assert made == shown, "run python docs/reference.py"


def test_each_command_is_described_as_its_help_does() -> None:
    page = "".join(written().values())
    assert [name for name in GROUP.commands if reference.described(name, GROUP.commands[name]) not in page] == []


def test_every_command_stands_in_the_reference() -> None:
    pages = written().values()
    headings = [line.removeprefix("## ") for page in pages for line in page.splitlines() if line.startswith("## ")]
    assert sorted(headings) == sorted(GROUP.commands)
    assert max(len(page.splitlines()) for page in pages) <= 200


def test_most_commands_are_shown_with_what_they_print() -> None:
    pages = written().values()
    parts = [part for page in pages for part in page.split("\n## ")[1:]]
    shown = {part.split("\n")[0] for part in parts if "```console\n" in part}
    started = {"serve", "up", "quickstart"}  # they start servers, which stay
    long = {"tune", "compress", "cascade", "backfill", "watch", "answer", "card"}
    assert shown == set(GROUP.commands) - started - long


def test_the_same_line_with_another_answer_says_after_which_command() -> None:
    steps = [reference.Shown(line, 0, "") for line in ("why a", "add b", "why a")]
    assert [reference.block(step) for step in reference.repeated(steps)] == [
        "$ why a\n", "$ add b\n", "# after add b\n$ why a\n",
    ]  # fmt: skip
    blocks = ["\n".join(page.split("```console\n")[1:]) for page in written().values()]
    lines = [line for block in blocks for line in block.splitlines()]
    again = [lines[i - 1] for i, line in enumerate(lines) if line.startswith("$ ") and line in lines[:i]]
    assert again
    assert all(line.startswith("# after ") for line in again)


def test_a_date_that_the_command_names_stays() -> None:
    page = (reference.FOLDER / "decide.md").read_text(encoding="utf-8")
    line = "history claims --at 2026-11-01"
    assert f"$ bertline {line}\nclaims had no champion at 2026-11-01T00:00:00+00:00\n" in page
    both = "at 2026-11-01T00:00:00+00:00, not 2026-11-02T00:00:00+00:00"
    assert reference.normal(both, line) == "at 2026-11-01T00:00:00+00:00, not 2026-11-28T09:00:00+00:00\n"


def test_what_changes_is_replaced_in_one_place() -> None:
    assert reference.normal("key-1-deadbeef signs  \n2026-01-02T03:04:05+00:00 " + "a" * 32) == (
        "key-1-0123abcd signs\n2026-11-28T09:00:00+00:00 0123456789abcdef0123456789abcdef\n"
    )
