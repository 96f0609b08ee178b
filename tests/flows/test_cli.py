"""The command line: one sentence and an exit status for what is wrong, and no edit lost."""

import json
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from flows.cli import comparisons
from flows.quickstart import quickstart
from pipelines.core import json_file, paths
from pipelines.core.errors import UsageError
from pipelines.graph import new_project
from tests.support import commands, stores
from tests.support.records import RECORDS

GOOD = "ingest: {mine: {corpus: custom}}\n"


@pytest.fixture(autouse=True)
def files(checkout: Path) -> None:
    Path("params").mkdir()
    Path("params/good.yaml").write_text(GOOD)
    Path("params.yaml").write_text("{}\n")


def bertline(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flows.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_use_activates_a_file_and_refuses_to_lose_edits() -> None:
    refused = bertline("use", "params/good.yaml")
    assert refused.returncode == 2
    assert "params.yaml has edits that are in no commit and no other params file, here or in params/" in refused.stderr
    assert Path("params.yaml").read_text() == "{}\n"
    Path("params/kept.yaml").write_text("{}\n")
    assert bertline("use", "params/good.yaml").returncode == 0
    assert Path("params.yaml").read_text() == GOOD
    Path("params/bad.yaml").write_text("finetune: {x: {encoder: e}}\n")
    wrong = bertline("use", "params/bad.yaml")
    assert wrong.stderr == "bertline: error: params/bad.yaml: finetune.x.data: missing, and it has no default\n"
    assert Path("params.yaml").read_text() == GOOD


def test_check_names_what_is_wrong() -> None:
    assert bertline("check").stdout == "params.yaml: 0 entries, all well-formed\n"
    Path("params.yaml").write_text("resources: {worker: 2}\n")
    wrong = bertline("check")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("bertline: error: params.yaml: resources: no key 'worker' (did you mean 'workers'?)")
    assert wrong.stderr.count("\n") == 1
    assert "Traceback" in bertline("--debug", "check").stderr


def test_table_shows_every_run_and_what_it_took_here() -> None:
    runs = {"evaluate": {"worse": {"task": "t"}, "new": {"task": "t"}}, "baseline": {"other": {"task": "another"}}}
    Path("params.yaml").write_text(yaml.safe_dump(runs, allow_unicode=True))
    none = bertline("table")
    assert none.returncode == 1
    assert (
        none.stderr == "bertline: error: artifacts/metrics/NAME.json: no run has been evaluated yet; run `dvc repro`\n"
    )
    for record in RECORDS:  # one of them is of a run that params.yaml does not name
        json_file.write(paths.metrics(record["run"]), record)
    json_file.write(paths.timings("worse"), {"latency_ms": {"p50": 1.25}, "rows_per_second": 12345})
    lines = bertline("table").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["run", "other", "worse"]
    assert lines[1].split()[-2:] == ["-", "-"]
    assert lines[2].split()[-2:] == ["1.25", "12,345"]
    runs_as_json = json.loads(bertline("table", "--json").stdout)
    assert [(run["run"], run["split"]) for run in runs_as_json] == [("other", "test"), ("worse", "test")]
    assert f"a list of objects: {', '.join(runs_as_json[0])}" == comparisons.RUNS


COMMANDS = [
    ("tune mime", "tune"),
    ("compress mime", "finetune or compress"),
    ("retrain mine mime", "promote"),
    ("promote mime", "promote"),
    ("rollback mime", "promote"),
    ("backfill score mime --from 2026-11-01 --to 2026-11-02", "score"),
    ("watch mime", "watch"),
]


@pytest.mark.parametrize(("command", "section"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_a_wrong_name_is_reported_before_prefect_starts(command: str, section: str) -> None:
    sections = ("tune", "finetune", "promote", "score", "watch")
    Path("params.yaml").write_text(yaml.safe_dump({section: {"mine": {}} for section in sections}))
    called = f"""if True:
        import sys
        from flows import cli
        sys.argv = ["bertline", *{command.split()!r}]
        try:
            cli.main()
        finally:
            print("prefect" in sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", called], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    message = f"bertline: error: params.yaml: no {section} entry 'mime' (did you mean 'mine'?); there are: mine\n"
    assert (done.stdout, done.stderr) == ("False\n", message)


def test_the_quickstart_needs_a_model_to_promote() -> None:
    with pytest.raises(UsageError, match=r"params\.yaml: no entry of promote"):
        quickstart()


@pytest.mark.slow
def test_the_quickstart_ends_with_what_the_gate_refuses(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(new_project.create(checkout / "own", checkout / "own.remote"))
    monkeypatch.chdir(checkout / "own")
    stores.place_in(checkout / "own")
    labels = random.Random(1).choices("ab", k=80)
    Path("rows.csv").write_text("text,label\n" + "".join(f"the film {i},{label}\n" for i, label in enumerate(labels)))
    assert bertline("new", "rows.csv", "--yes").returncode == 0
    written = re.sub("epochs: .*", "epochs: 1", Path("params.yaml").read_text())
    Path("params.yaml").write_text(written.replace("at_least: 0.0", "at_least: 1.0"))
    ended = bertline("quickstart")
    assert ended.returncode == 3, ended.stderr
    *_, refused, last = (line for line in ended.stdout.splitlines() if not line.startswith("gate    passed"))
    assert refused.startswith("gate    refused: accuracy ")
    assert last == "rows has no champion, so its rows are not scored, and nothing is asked"


@pytest.mark.slow
def test_a_flow_fails_in_one_sentence() -> None:
    Path("params.yaml").write_text("promote: {mine: {run: other}}\n")
    failed = commands.bertline("promote mine").require(2)
    assert failed.err.startswith("bertline: error: params.yaml: evaluate: no entry 'other'")
    assert failed.err.count("\n") == 1


@pytest.mark.slow
def test_prefect_adds_nothing_when_its_server_is_slow() -> None:
    script = """if True:
        import logging
        from flows.local import prefect_settings
        prefect_settings.use_local_state()
        from prefect.events.worker import EventsWorker
        from prefect.logging.configuration import setup_logging
        from prefect.logging.handlers import APILogWorker
        setup_logging()
        for service in (EventsWorker, APILogWorker):
            logging.getLogger(service.__name__).warning("Still processing items: 1 items remaining...")
        logging.getLogger("another").warning("what others warn of")
    """
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert process.stderr.count("\n") == 1
    assert "what others warn of" in process.stderr
