"""The commands of README, from a clone to a prediction, in a copy of this checkout with a smaller params.yaml."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from flows.local.http_service import wait_for
from pipelines import NO_TELEMETRY
from pipelines.core.ports import free_port
from tests.support import forked
from tests.support.places import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SECRETS = {  # for a registry, a Prefect server, a bucket and a hub elsewhere
    "MLFLOW_TRACKING_PASSWORD": "planted-registry",
    "PREFECT_API_AUTH_STRING": "me:planted-schedules",
    "AWS_SECRET_ACCESS_KEY": "planted-bucket",
    "HF_TOKEN": "planted-hub",
    "BERTLINE_NOTIFY": "http://127.0.0.1:9/planted-notices",
}
BLOCKS = re.findall(r"^```(?:sh|json)\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)


@pytest.fixture
def clone(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with every file that git would clone, and an installed virtual environment."""
    listed = ["git", "ls-files", "-co", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    for name in names:
        if (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, checkout / name, follow_symlinks=False)
    os.utime("requirements.lock", (0, 0))  # older than the installed packages
    Path(".venv").mkdir()
    Path(".venv/bin").symlink_to(Path(sys.executable).parent)
    Path(".venv/.installed").touch()
    small(checkout / "params.yaml")
    monkeypatch.setenv("PYTHONPATH", str(checkout))
    monkeypatch.delenv("BERTLINE_QUIET")
    shell("dvc init -q --no-scm --force")
    Path(".dvc/config").write_text("[core]\n    no_scm = true\n    analytics = false\n")  # without git
    for name in NO_TELEMETRY:
        monkeypatch.delenv(name, raising=False)
    (checkout / "state/home").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(checkout / "state/home"))
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    return checkout


def small(file: Path) -> None:
    """Reduce the quickstart to one run of one epoch on few rows and its baseline, with a gate that passes anything."""
    params = yaml.safe_load(file.read_text(encoding="utf-8"))
    for section in ("prepare", "encode", "finetune", "evaluate", "export"):
        params[section] = {"entailment": params[section]["entailment"]}
    params["finetune"]["entailment"]["epochs"] = 1
    params["baseline"] = {"entailment-svm": params["baseline"]["entailment-svm"]}
    params["promote"] = {"entailment": {"run": "entailment", "beats": False}}
    params |= {"ingest": {}, "pretrain": {}, "compress": {}, "score": {}, "watch": {}}
    file.write_text(yaml.safe_dump(params, allow_unicode=True), encoding="utf-8")
    for split, rows in (("train", 96), ("dev", 48)):
        table = file.with_name("samples") / "entailment" / f"{split}.tsv"
        table.write_text(
            "".join(table.read_text(encoding="utf-8").splitlines(keepends=True)[: rows + 1]), encoding="utf-8"
        )


def shell(command: str) -> subprocess.CompletedProcess[str]:
    """Run a command of README in the environment that README creates first."""
    done = subprocess.run(["bash", "-c", with_environment(command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def with_environment(command: str) -> str:
    tested = "CI PYTEST_CURRENT_TEST"  # MLflow sends no telemetry if it sees one of these
    return f"source .venv/bin/activate && unset {tested} && exec {command}"


def said(*words: str) -> str:
    """The output of a `bertline` command, run in a process with its imports already loaded."""
    done = forked.run("flows.cli", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_where_the_champion_came_from() -> None:
    assert "it passed the gate" in said("history", "entailment")
    assert said("lineage", "model", "entailment@champion").startswith("entailment version 1, the champion, of")
    lineage = json.loads(said("lineage", "model", "entailment@champion", "--json"))
    stages = {stage["stage"]: stage for stage in lineage["stages"]}
    assert next(iter(stages)) == "prepare@entailment"
    assert {"prepare@entailment", "encode@entailment", "finetune@entailment", "export@entailment"} == set(stages)
    assert all(stage["run"] for stage in stages.values())
    ((path, md5),) = stages["prepare@entailment"]["wrote"].items()
    told = said("lineage", "data", md5[:8])
    assert told.startswith(f"{path}  {md5}\n  written by prepare@entailment\n  read by encode@entailment\n")
    assert told.endswith("  in entailment version 1, the champion\n")


def check_that_no_secret_was_written(clone: Path) -> None:
    """Check the checkout, with the home folder and the files of Prefect inside it, and the files of Ray."""
    began = (clone / ".venv").lstat().st_mtime
    sessions = [place for place in Path("/tmp/ray").glob("session_2*") if place.stat().st_mtime >= began]
    places = [place for place in clone.iterdir() if place.name not in ("tests", ".venv")]
    files = [each for place in (*places, *sessions) for each in place.rglob("*") if each.is_file()]
    assert len(files) > 100
    assert [str(each) for each in files if has_secret(each)] == []


def has_secret(file: Path) -> bool:
    try:
        return b"planted-" in file.read_bytes()
    except OSError:  # the session of another test, which has ended
        return False


def test_the_way_from_a_clone_to_an_answer(clone: Path) -> None:
    install, start, request, answer = BLOCKS
    made = shell(install.splitlines()[0].partition("#")[0])
    assert install.startswith("make run ")
    assert "finetune@entailment: done after" in made.stderr
    assert "entailment-svm  baseline" in made.stdout
    assert "\nanswer  label " in made.stdout

    assert "entailment-svm  baseline" in said("table")
    assert "serve" in shell("bertline --help").stdout
    assert "nothing to do" in said("run")
    assert "finetune@entailment is up to date: its command, " in said("why", "finetune@entailment")
    assert re.findall(r"Running stage '([^']+)'", shell("dvc repro").stdout) == ["code"]
    check_where_the_champion_came_from()

    port = str(free_port())
    activate, serve = start.splitlines()
    assert with_environment(serve).startswith(activate)
    with subprocess.Popen(["bash", "-c", with_environment(f"{serve} --port {port}")]) as server:
        try:
            wait_for(f"http://127.0.0.1:{port}/health", 180)
            answered = json.loads(shell(request.replace(":8000/", f":{port}/")).stdout)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)
    home = Path("state/home")
    left = [str(each.relative_to(home)) for each in sorted(home.rglob("*")) if each.is_file()]
    expected = (".cache/matplotlib/fontlist-", ".ray/auth_token")  # listed in docs/security.md
    assert [each for each in left if not each.startswith(expected)] == []
    check_that_no_secret_was_written(clone)
    told = json.loads(answer)
    assert (answered["model"], answered["version"]) == (told["model"], told["version"])
    assert [sorted(one) for one in answered["predictions"]] == [sorted(one) for one in told["predictions"]]
