"""What README, the pages beside it and the deployment files say is so."""

import ast
import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from prefect import Flow
from prefect.client.schemas.schedules import CronSchedule
from prefect.events import DeploymentEventTrigger
from prefect.settings import Settings
from prefect.utilities.importtools import import_object
from ray.serve.schema import ServeDeploySchema

from docs import generate
from flows import failure_hook
from flows.cli import arguments, cli
from pipelines.core import params, plugins
from pipelines.core.errors import UsageError
from pipelines.core.resources import Resources
from pipelines.graph import checking
from tests.support.places import ROOT

WALK = "tests/serving/test_readme.py::test_the_way_from_a_clone_to_an_answer"
USE = "tests/flows/test_cli.py::test_use_activates_a_file_and_refuses_to_lose_edits"
# each command of README -> the test that runs it, or the script that every change must pass
RUN_BY = {
    "make run": WALK,
    "make test": ".ci/run",
    "make soak": "Makefile",  # by hand: it takes hours
    "source .venv/bin/activate": WALK,
    "bertline serve entailment": WALK,
    "curl": WALK,
    "bertline run": WALK,
    "dvc repro": WALK,
    "bertline why finetune@headlines": WALK,
    "bertline table": WALK,
    "bertline --help": WALK,
    "python -m pipelines.stages.finetune headlines": WALK,
    "bertline use params/livedoor.yaml": USE,
    "bertline new my/tickets.csv": "tests/flows/test_new.py::test_a_dirty_file_is_told_and_written",
    "bertline init FOLDER": "tests/flows/test_init.py::test_a_project_of_ones_own_prepares_rows_and_a_clone_pulls_them",
}
# what the house calls things, and what users meet in params.yaml
TERMS = """corpus, task, kind, rows, encoded, encoder, head, pooling, strategy, run, model folder, teacher, student,
    challenger, champion, promotion, rollback, ledger, promotion history, baseline, masked tokens, sequence packing,
    embedding subset, cls-only last layer, frozen features, oneDNN linear layers, fast dropout, attention kernels,
    positive pairs, behaviour check, slice, fingerprint, provenance, timings, evaluations, resources,
    alias, canary, shadow, smoke rows, replay, encoder state"""


def pages() -> list[str]:
    """Every page of Markdown that git has, or would take."""
    command = ["git", "ls-files", "-co", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted({name for name in listed if (ROOT / name).is_file()})


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def long_lines(text: str) -> list[str]:
    """Lines over 100 characters outside of code and tables."""
    return [line for line in without_code(text).splitlines() if len(line) > 100 and not line.startswith("|")]


def anchors(text: str) -> set[str]:
    """The headings of a page, as links name them."""
    titles = re.findall(r"^#+ (.+)$", without_code(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(text: str, folder: Path) -> list[str]:
    """Links of a page in `folder` to files that are not there, or to headings that a page does not have."""
    links = [link.partition("#") for link in re.findall(r"\]\(([^)\s]+)\)", without_code(text)) if "://" not in link]
    return [
        name + anchor
        for name, _, anchor in links
        if not (folder / name).exists()
        or (anchor and anchor not in anchors((folder / name).read_text(encoding="utf-8") if name else text))
    ]


def missing_paths(text: str) -> list[str]:
    """Paths of this repository between backticks that are not there."""
    folders = "benchmarks|bertline|docker|docs|encoders|flows|params|pipelines|samples|tests"
    paths = re.findall(rf"`((?:{folders})/[\w./-]+)`", without_code(text))
    return [path for path in paths if not (ROOT / path).exists()]


def commands(text: str) -> set[str]:
    """The commands of a page: the lines of its shell blocks, and what its prose has between backticks."""
    lines = "".join(blocks(text, "sh")).replace("\\\n", " ").splitlines()
    prose = re.sub(r"\s+", " ", without_code(text))
    lines += re.findall(r"`((?:bertline|make|dvc|python) [^`]+)`", prose)
    split = [shlex.split(line, comments=True) for line in lines]
    return {"curl" if words[0] == "curl" else " ".join(words) for words in split if words}


def is_there(command: str) -> bool:
    """Whether the verb, the target, the stage or the script that a command names is there; of other commands, True."""
    what, *words = command.split()
    if what == "make":
        return f"\n{words[0]}:" in read("Makefile")
    if what == "bertline":
        group: Any = typer.main.get_command(cli)
        return words[0] in group.commands or words[0] == "--help"
    if what == "python" and words[0] == "-m" and words[1].startswith("pipelines.stages."):
        return words[1].removeprefix("pipelines.stages.") in plugins.names("pipelines.stages")
    return what != "python" or words[0].startswith("-") or (ROOT / words[0]).is_file()


def names_of_tests(file: str) -> set[str]:
    tree = ast.parse(read(file))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_generated_pages_are_what_docs_generate_writes() -> None:
    assert generate.readme(read("README.md")) == read("README.md"), "run python docs/generate.py"
    assert generate.file_map() == read("docs/map.md"), "run python docs/generate.py"
    assert generate.test_tables() == read("docs/tests.md"), "run python docs/generate.py"
    assert generate.commands_page() == read("docs/commands.md"), "run python docs/generate.py"


def test_every_command_stands_on_a_page_and_every_status_in_its_table() -> None:
    page = read("docs/commands.md")
    group: Any = typer.main.get_command(cli)
    assert len(page.splitlines()) <= 200
    assert {line.split("`")[1].split()[0] for line in page.splitlines() if line.startswith("| `")} == set(
        group.commands
    )
    statuses = {
        arguments.FAILED,
        arguments.REFUSED,
        arguments.DRIFTED,
        arguments.INTERRUPTED,
        UsageError.exit_status,
        0,
    }
    assert {int(line.split()[1]) for line in page.splitlines() if re.match(r"\| \d", line)} == statuses


def test_readme_can_be_read_in_five_minutes() -> None:
    assert len(read("README.md").splitlines()) <= 150


@pytest.mark.parametrize("page", pages())
def test_a_page_is_wrapped_and_leads_somewhere(page: str) -> None:
    text = read(page)
    assert long_lines(text) == []
    assert broken_links(text, (ROOT / page).parent) == []
    assert [command for command in commands(text) if not is_there(command)] == []
    assert page.startswith("docs/log/") or missing_paths(text) == []  # a log tells of files that were there


def test_planted_faults_of_a_page_are_found() -> None:
    assert {"README.md", "CHANGELOG.md", "docs/glossary.md", "encoders/mini-ja/README.md"} < set(pages())
    assert missing_paths("`docs/map.md`, `docs/no.md`, `ray/no.py`") == ["docs/no.md"]
    assert long_lines(f"| {'x' * 100} |\n```\n{'x' * 101}\n```\n{'x' * 101}\n{'x' * 100}") == ["x" * 101]
    links = "[a](README.md) [b](nothing.md) [c](docs/log/README.md#nothing) [d](#one-two) [e](#three) [f](https://x.y)"
    assert broken_links(f"{links}\n# One, two", ROOT) == ["nothing.md", "docs/log/README.mdnothing", "three"]
    page_text = (
        "```sh\nmake run  # all\ncurl -d '{}' x\n```\n`bertline\nserve it`, `params.yaml`, `python docs/none.py`"
    )
    assert commands(page_text) == {"make run", "curl", "bertline serve it", "python docs/none.py"}
    wrong = ["make rum", "bertline server", "python -m pipelines.stages.tune x", "python docs/none.py"]
    assert not any(map(is_there, wrong))


def test_every_command_of_readme_runs_in_a_test() -> None:
    assert commands(read("README.md")) == set(RUN_BY)
    for command, runner in RUN_BY.items():
        file, _, name = runner.partition("::")
        assert name in names_of_tests(file) if name else command in read(file)


# commands of docs/promoting.md and docs/scheduling.md that tests/flows/test_story.py does not run -> how another does
ELSEWHERE = {
    "bertline serve headlines": ("tests/serving/test_readme.py", 'with_environment(f"{serve} --port {port}")'),
    "bertline serve headlines --keep-requests 14 --keep-texts": ("tests/serving/test_request_store.py", "--keep-texts"),
    "bertline promote headlines --replay 7": ("tests/flows/test_replay_before_promotion.py", '"--replay"'),
    "bertline cascade headlines headlines-small": ("tests/flows/test_registered_cascade.py", "cascade tiny small"),
    "bertline card headlines": ("tests/flows/test_card.py", 'card("desk")'),
    "bertline card headlines@champion": ("tests/flows/test_card.py", 'card("desk@champion")'),
    "bertline up": ("tests/flows/test_services.py", 'bertline(environment, "up")'),
    "bertline down": ("tests/flows/test_services.py", 'bertline(environment, "down")'),
    "bertline trigger score/file": ("tests/flows/test_services.py", '"trigger", "score/file"'),
    "bertline trigger score-folder/folder": ("tests/flows/test_work_queues.py", 'trigger("score-folder/folder"'),
    "bertline trigger retrain/weekly": ("tests/flows/test_services.py", '"trigger", "retrain/weekly"'),
} | dict.fromkeys(
    (
        "export PREFECT_API_URL=http://127.0.0.1:4200/api",
        'export PREFECT_API_AUTH_STRING="$(cat state/prefect.key)"',
        'export PREFECT_HOME="$PWD/state/prefect"',
        "prefect deployment run retrain/weekly",
        "prefect work-pool set-concurrency-limit bertline 1",
    ),
    ("tests/flows/test_services.py", '["bash", "-ec", block.removeprefix("sh")]'),
)


@pytest.mark.parametrize("page", ["docs/promoting.md", "docs/scheduling.md"])
def test_commands_of_the_owners_pages_are_run(page: str) -> None:
    """As they stand there, but for dates and md5s; with every option."""
    story = read("tests/flows/test_story.py")
    lines = [line.partition("  #")[0].strip() for block in blocks(read(page), "sh") for line in block.splitlines()]
    assert len(lines) > 5
    for line in lines:
        command, *options = re.split(r" (?=--)", line)
        file, run = ELSEWHERE.get(line) or ELSEWHERE.get(
            command, ("tests/flows/test_story.py", re.sub(r" [0-9a-f]{8}$", "", command))
        )
        assert run in read(file), line
        assert all(file != "tests/flows/test_story.py" or option.split()[0] in story for option in options), line


def test_the_commands_for_a_cluster_are_whole_as_pasted() -> None:
    """Without the mode a driver is not let in, and without the token no node starts."""
    block = next(block for block in blocks(read("docs/cluster.md"), "") if "ray start" in block)
    lines = [line.partition("#")[0].split() for line in block.splitlines()]
    assert lines[0][2:5] == ["ray", "get-auth-token", "--generate)"]
    assert lines[1] == ["export", "RAY_AUTH_MODE=token"]
    assert [line[:2] for line in lines[2:4]] == [["ray", "start"]] * 2
    assert lines[4][0].startswith("RAY_ADDRESS=")


@pytest.mark.parametrize("page", ["docs/using.md", "docs/adding.md", "docs/cluster.md", "docs/scheduling.md"])
def test_entries_of_the_pages_are_well_formed(page: str) -> None:
    pieces = [yaml.safe_load(block) for block in blocks(read(page), r"yaml(?: params\.yaml)?")]
    sections = [section for piece in pieces for section in piece.items()]
    assert sections
    for section, entries in sections:
        if section == "resources":
            params.parse(Resources, entries, page)
            continue
        for key, entry in entries.items():
            params.parse(checking.section(section), entry, f"{page}: {section}.{key}")


def test_every_term_has_its_source() -> None:
    entries = re.findall(r"^- \*\*(.+?)\*\*: (.+?)(?=^- |^#|\Z)", read("docs/glossary.md"), re.MULTILINE | re.DOTALL)
    terms = {term for names, _ in entries for term in re.split(r", ", names)}
    assert len(entries) > 80
    assert set(re.split(r",\s+", TERMS)) - terms == set()
    assert [names for names, says in entries if not re.search(r"\((.*\b(19|20)\d\d\b|\[)", says, re.DOTALL)] == []


def test_prefects_deployments_name_real_flows() -> None:
    deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    flows = {d["entrypoint"].rpartition(".")[2] for d in deployments}
    assert flows == {"retrain", "promote", "score", "score_folder", "score_windows", "backfill", "watch", "new_data"}
    code = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "flows").glob("*.py"))
    jobs = yaml.safe_load((ROOT / "params.yaml").read_text())["score"]
    for deployment in deployments:
        flow = import_object(deployment["entrypoint"])
        assert isinstance(flow, Flow)
        assert set(deployment.get("parameters", {})) <= set(flow.parameters.properties)
        assert deployment.get("parameters", {}).get("job", "nightly") in jobs
        for trigger in deployment.get("triggers", []):
            DeploymentEventTrigger.model_validate(trigger)
            assert all(f'"{event.removeprefix("bertline.")}"' in code for event in trigger["expect"])
        for schedule in deployment.get("schedules", []):
            CronSchedule(cron=schedule["cron"])


def test_each_deployment_has_retries_a_time_limit_and_a_failure_hook() -> None:
    known = Settings().to_environment_variables(exclude_unset=False)
    deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    for deployment in deployments:
        name, flow = deployment["name"], import_object(deployment["entrypoint"])
        assert flow.timeout_seconds, name
        assert flow.on_failure_hooks == flow.on_crashed_hooks == [failure_hook.failed], name
        again = deployment["work_pool"]["job_variables"]["env"]
        assert {"PREFECT_FLOWS_DEFAULT_RETRIES", "PREFECT_TASKS_DEFAULT_RETRIES"} < set(again) <= set(known), name
        waits = json.loads(again["PREFECT_TASKS_DEFAULT_RETRY_DELAY_SECONDS"])
        assert waits == sorted(waits)
        assert len(waits) == int(again["PREFECT_TASKS_DEFAULT_RETRIES"]) > 1
        interchangeable = name in ("nightly", "drift", "sources")
        limit = {"limit": 1, "collision_strategy": "CANCEL_NEW"} if interchangeable else 1
        assert deployment["concurrency_limit"] == limit, name
    assert len(deployments) == 8


def test_serves_file_is_one_that_ray_takes() -> None:
    config = ServeDeploySchema.model_validate(yaml.safe_load((ROOT / "docker/serve.yaml").read_text()))
    path, name = config.applications[0].import_path.split(":")
    assert Path(ROOT / path.replace(".", "/")).with_suffix(".py").exists()
    assert name == "app"


def test_no_committed_file_holds_a_package_index() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    assert "\ntorch==2.13.0\n" in lock
    assert "nvidia" not in lock
