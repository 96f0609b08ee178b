"""The help and the completion of `bertline`: groups, an example that parses for each command, names by TAB."""

import json
import os
import shlex
import sqlite3
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from flows.cli import completion, panels
from pipelines.lifecycle import history
from pipelines.tracking import registry_snapshot
from tests.support import commands, json_answers, tickets
from tests.support.places import ROOT

GROUP = json_answers.GROUP
# the commands without --json, and why
WITHOUT_JSON = {
    "serve": "it runs until it is stopped; `--log-format json` writes a line a request",
    "quickstart": "it tells of a walk; each of its steps is a command with --json",
}


def examples(name: str) -> list[list[str]]:
    head, *lines = (GROUP.commands[name].epilog or "").splitlines()
    assert head == panels.EXAMPLES
    return [shlex.split(line) for line in lines]


def test_help_is_grouped(checkout: Path) -> None:
    text = commands.bertline("--help", COLUMNS="120").require(0).out
    places = [text.index(f"─ {panel} ─") for panel in panels.PANELS]
    assert places == sorted(places)
    assert {vars(command)["rich_help_panel"] for command in GROUP.commands.values()} == set(panels.PANELS)


def test_the_version_is_that_of_the_project(checkout: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert commands.bertline("--version").require(0).out == f"bertline {project['version']}\n"


@pytest.mark.parametrize("name", sorted(GROUP.commands))
def test_each_command_has_help_an_example_that_parses_and_shared_options(name: str) -> None:
    command = GROUP.commands[name]
    assert command.help
    assert examples(name)
    for program, verb, *words in examples(name):
        assert (program, verb) == ("bertline", name)
        assert command.make_context(name, list(words)).command is command
    assert [param.name for param in command.params if not param.help] == []
    options = {option for param in command.params for option in param.opts}
    assert {"--quiet", "--debug"} <= options
    assert bool(json_answers.json_help(name).startswith(json_answers.HEAD)) is (name not in WITHOUT_JSON)


def test_debug_and_quiet_count_after_a_commands_name_too(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("params.yaml").write_text("resources: {worker: 2}\n")
    assert "Traceback" in commands.bertline("check --debug").require(2).err
    assert "Traceback" not in commands.bertline("check").require(2).err
    for line, quiet in (("history x", ""), ("history x --quiet", "1"), ("--quiet history x", "1"), ("history x", "")):
        seen = []
        with monkeypatch.context() as patch:
            patch.setenv("BERTLINE_QUIET", "")
            patch.setattr(history, "history", lambda name, seen=seen: seen.append(os.environ["BERTLINE_QUIET"]) or {})
            patch.setattr(history, "plain", lambda answer: "")
            patch.setattr(registry_snapshot, "require", lambda name: None)
            commands.bertline(line).require(0)
        assert seen == [quiet]


def completed(line: str) -> list[str]:
    """What a shell offers after `bertline LINE`, whose last word is incomplete."""
    words = {"COMP_WORDS": f"bertline {line}", "COMP_CWORD": str(line.count(" ") + 1)}
    environment = os.environ | words | {"_BERTLINE_COMPLETE": "complete_bash"}
    script = "import sys; sys.argv = ['bertline']; from flows import cli; cli.main()"
    command = [sys.executable, "-c", script]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout.split()


def test_names_are_completed_and_damaged_files_complete_nothing(checkout: Path) -> None:
    Path("params.yaml").write_text("promote: {headlines: {run: headlines}, tickets: {run: tickets}}\n")
    Path("dvc.lock").write_text("stages: {finetune@a: {}, finetune@b: {}, report: {}}\n")
    Path("artifacts/scores").mkdir(parents=True)
    for run in ("one", "other"):
        Path(f"artifacts/scores/{run}.json").write_text("{}")
    Path("state/mlflow").mkdir(parents=True, exist_ok=True)
    completion.local_versions.DATABASE.unlink(missing_ok=True)
    with sqlite3.connect(completion.local_versions.DATABASE) as database:
        database.execute("CREATE TABLE model_versions (name TEXT, version INTEGER, current_stage TEXT)")
        rows = [("headlines", 1, None), ("headlines", 2, "None"), ("headlines.ledger", 1, "None")]
        rows += [("headlines", 3, "Deleted_Internal")]
        database.executemany("INSERT INTO model_versions VALUES (?, ?, ?)", rows)
    database.close()
    assert completed("promote t") == ["tickets"]
    assert completed("diff o") == ["one", "other"]
    assert completion.stages("finetune@") == ["finetune@a", "finetune@b"]
    assert completion.versions("headlines@") == ["headlines@1", "headlines@2", "headlines@champion"]
    assert completion.served("headlines@c") == ["headlines@challenger", "headlines@champion"]
    for damaged in (b"promote: [", b"\xff\xfe", b"- a", b""):
        Path("params.yaml").write_bytes(damaged)
        Path("dvc.lock").write_bytes(damaged)
        completion.local_versions.DATABASE.write_bytes(b"not a database" + damaged)
        assert completion.of_sections("promote")("") == completion.stages("") == completion.versions("") == []


def test_completion_waits_for_nothing_heavy() -> None:
    """The modules that take a tenth of a second or more."""
    heavy = {"pydantic", "psutil", "numpy", "rich", "mlflow"}
    script = f"import sys, flows.cli; print(sorted({heavy} & set(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_an_answer_in_json_is_one_object_with_the_keys_of_its_help(checkout: Path) -> None:
    def answer(line: str, status: int = 0, place: int = 0) -> Any:
        ended = commands.bertline(f"{line} --json").require(status)
        assert ended.err == ""
        return json_answers.require_keys(line.split()[0], ended.out, place)

    tickets.write(Path("tickets.csv"), "en", "utf-8", ";")
    made = answer("new tickets.csv --yes")
    assert made["entries"]["baseline"] == "tickets-baseline"
    assert made["next"] == ["bertline check", "bertline run evaluate@tickets baseline@tickets-baseline"]
    Path("more.csv").write_text("番号;body;category\n9001;a text that nobody wrote before;bug\n")
    assert answer("add more.csv --to tickets")["added"] == 1
    assert answer("check") == {"entries": 7, "findings": []}
    assert answer("check --page a.html", place=1)["errors"] == 0
    Path("mine.yaml").write_text("ingest: {}\n")
    assert answer("use mine.yaml --force") == {"file": "mine.yaml", "active": "params.yaml"}
    assert answer("receipt-key receipts.key")["key"].startswith("key-1-")
    assert answer("down") == {"stopped": []}


def test_check_names_sections_that_the_graph_needs_among_all_findings(checkout: Path) -> None:
    make, use = (f"{{foreach: '${{{name}}}', do: {{cmd: x}}}}" for name in ("ingest", "encode"))
    Path("dvc.yaml").write_text(f"stages: {{make: {make}, use: {use}, all: {{cmd: x}}}}\n")
    Path("params.yaml").write_text("encode:\nprepare: {a: {corpus: custom, source: a.csv}}\n")
    lacking = "params.yaml: no section ingest, encode; dvc.yaml needs each, even if it is empty: "
    lacking += "write `ingest: {}`, `encode: {}`"
    missing = "params.yaml: prepare.a.source: a.csv: no such file or folder"
    refused = commands.bertline("check").require(2)
    assert refused.err.splitlines() == [f"bertline: error: {line}" for line in (lacking, missing, "2 findings in all")]
    answer = json.loads(commands.bertline("check --json").require(2).out)
    assert answer == {"entries": 1, "findings": [lacking, missing]}


@pytest.mark.parametrize("line", ["run", "run --dry", "why make", "retrain"])
def test_a_run_of_the_graph_says_what_check_says_before_dvc_starts(checkout: Path, line: str) -> None:
    Path("dvc.yaml").write_text("stages: {make: {foreach: '${ingest}', do: {cmd: x}}}\n")  # without `dvc init`
    Path("params.yaml").write_text("fintune: {}\n")
    lines = commands.bertline(line).require(2).err.splitlines()
    assert lines == commands.bertline("check").require(2).err.splitlines()
    assert len(lines) == 3
    assert "error: params.yaml: no section ingest; dvc.yaml needs each, even if it is empty: " in lines[0]
    assert "error: params.yaml: no section 'fintune' (did you mean 'finetune'?); " in lines[1]


def test_a_stage_without_an_entry_is_refused_with_the_names_there_are(checkout: Path) -> None:
    Path("params.yaml").write_text(
        "baseline: {tickets: {task: tickets}}\nprepare: {tickets: {corpus: text, source: a}}\n"
    )
    sentence = "params.yaml: baseline: no entry 'ticket' (did you mean 'tickets'?); there are: tickets"
    for line in ("run baseline@ticket", "why baseline@ticket"):
        assert commands.bertline(line).require(2).err == f"bertline: error: {sentence}\n"
