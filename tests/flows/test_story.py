"""The whole story on real services: PostgreSQL, S3, MLflow with users, Prefect's server and a worker.

Days are scored, drift is seen and asks for a retraining; a wrong delivery of labels makes a worse challenger, which the
gate refuses, and the right one a better, which it takes; missed days are made up for once each; the better champion is
taken back; and history, lineage and `why` tell all of it. The commands are those of docs/promoting.md and of
docs/scheduling.md.
"""

import json
import os
import random
import shlex
import subprocess
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import permutations, product
from pathlib import Path
from typing import Any

import mlflow
import pyarrow as pa
import pytest
import yaml
from dvc.repo import Repo

from pipelines.core import tables
from tests.support import commands, postgres, servers, users
from tests.support.days import last_five
from tests.support.places import ROOT
from tests.support.servers import BIN, BUCKET

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), postgres.needed]
PASSWORD = "a password of the test"
# services of Prefect's server that no part of the story needs; a cron would add runs of its own
UNASKED = {
    f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false"
    for name in ("SCHEDULER", "LATE_RUNS", "FOREMAN", "PAUSE_EXPIRATIONS", "CANCELLATION_CLEANUP")
}
PATIENCE, PAUSE = 600.0, 2.0  # seconds for what the worker is to do, and between two questions, which take its time
THINGS = {
    "sport": ["試合", "監督", "選手", "優勝", "得点", "球場"],
    "phone": ["スマートフォン", "アプリ", "端末", "電池", "画面", "通信"],
    "food": ["料理", "野菜", "スープ", "味噌", "鍋", "パン"],
}
SAYS = ["{}の話題です", "{}について語る", "新しい{}が登場", "{}と{}を比べる", "今日の{}は最高", "なぜ{}なのか"]
PARAMS: dict[str, Any] = {
    **{key: {} for key in ("ingest", "import_weights", "build_vocab", "pretrain", "compress", "baseline")},
    "resources": {"threads": 1, "runtime": "onnx"},  # named, so nothing measures which is faster
    "prepare": {
        "headlines": {
            "corpus": "custom",
            "source": "news",
            "kind": "single",
            "files": {"train": "train.jsonl", "test": "test.jsonl"},
        }
    },
    "encode": {"headlines": {"task": "headlines", "vocab": "encoders/mini-ja", "max_length": 32}},
    "finetune": {
        "headlines": {
            "data": "headlines",
            "encoder": "encoders/mini-ja",
            "head": "linear",
            "epochs": 4,
            "batch_size": 16,
            "learning_rate": 1e-3,
        }
    },
    "evaluate": {"headlines": {"task": "headlines"}},
    "export": {"headlines": {}},
    "promote": {"headlines": {"run": "headlines", "at_least": 0.3, "may_lose": 0.02, "at_tie": "keep"}},
    "score": {
        "nightly": {
            "model": "headlines",
            "source": "incoming/headlines-{window}.parquet",
            "target": "scored/headlines-{window}.parquet",
            "catch_up": "latest",
        }
    },
    "watch": {"nightly": {}},
}


def texts(topic: str) -> list[str]:
    """Different headlines of a topic, in no order."""
    lines = {
        say.format(subject, target) + more
        for say, (subject, target), more in product(SAYS, permutations(THINGS[topic], 2), ("", "、と語る", "。今夜"))
    }
    return random.Random(topic).sample(sorted(lines), 160)


def deliver(labels: dict[str, str]) -> None:
    """The corpus: topic -> the label that its rows have in the training split; the test split is right."""
    Path("news").mkdir(exist_ok=True)
    for split, part in (("train", slice(0, 40)), ("test", slice(40, 80))):
        rows = [
            {"text": text, "label": topic if split == "test" else labels[topic]}
            for topic in labels
            for text in texts(topic)[part]
        ]
        Path(f"news/{split}.jsonl").write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))


def days() -> list[str]:
    return last_five(lasting_seconds=900)


def arrive(day: str, topics: list[str]) -> None:
    """The rows of a day: 30 of each topic that the corpus does not have."""
    chosen = [text for topic in topics for text in random.Random(day).sample(texts(topic)[80:], 30)]
    rows = pa.table({"text": chosen})
    tables.write(Path(f"incoming/headlines-{day}.parquet"), rows.to_batches(), rows.schema)


@pytest.fixture
def api(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """All services; a workspace with two topics of news. Yields the address of Prefect's API."""
    (workspace / "prefect.yaml").write_bytes((ROOT / "prefect.yaml").read_bytes())
    scored = {"nightly": PARAMS["score"]["nightly"] | {"since": days()[0]}}
    (workspace / "params.yaml").write_text(yaml.safe_dump(PARAMS | {"score": scored}, allow_unicode=True))
    monkeypatch.setenv("PYTHONPATH", str(workspace))
    monkeypatch.setenv("PWD", str(workspace))  # prefect.yaml has it
    monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("BERTLINE_ACTOR", "the story")
    Repo.init(no_scm=True, force=True).close()
    deliver({"sport": "sport", "phone": "phone"})
    place = workspace.parent / f"{workspace.name}-servers"
    with ExitStack() as stack:
        tracking, prefect = stores(stack, place)
        monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking.address)
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "admin")
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", PASSWORD)
        monkeypatch.setenv("PREFECT_HOME", str(place / "home"))
        monkeypatch.setenv("PREFECT_LOGGING_LEVEL", "WARNING")
        stack.enter_context(commands.using_prefect(prefect.api))
        shell("prefect work-pool create bertline --type process")
        shell("prefect --no-prompt deploy --all")
        worker = servers.Worker(place / "worker", PREFECT_WORKER_QUERY_SECONDS="3")
        stack.enter_context(servers.running(worker))
        yield prefect.api
    mlflow.set_tracking_uri(None)


def stores(stack: ExitStack, place: Path) -> tuple[servers.Mlflow, servers.Prefect]:
    """The servers of MLflow and of Prefect on one PostgreSQL; they start side by side."""
    database, s3 = stack.enter_context(postgres.postgres()), stack.enter_context(servers.s3(place / "s3"))
    tracking = servers.Mlflow(
        place / "mlflow",
        *users.OPTIONS,
        database=database.database("mlflow"),
        artifacts=f"s3://{BUCKET}/artifacts",
        **s3.for_mlflow(),
        **users.settings(place, PASSWORD),
    )
    prefect = servers.Prefect(place / "prefect", database.database("prefect", "asyncpg"), **UNASKED)
    with ThreadPoolExecutor() as beside:
        list(beside.map(stack.enter_context, [servers.running(server) for server in (tracking, prefect)]))
    return tracking, prefect


def shell(command: str, status: int = 0) -> str:
    """A command that ends with this status; returns what it printed."""
    program, *words = shlex.split(command)
    if program == "bertline":
        return commands.bertline(*words).require(status).out
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == status, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def runs(api: str, flow: str) -> list[dict[str, Any]]:
    """All runs of a flow, the first to start first."""
    body = {"flows": {"name": {"any_": [flow]}}, "sort": "START_TIME_ASC"}
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"{api}/flow_runs/filter", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        flow_runs: list[dict[str, Any]] = json.load(answer)
    return flow_runs


def ended(api: str, flow: str) -> int:
    """How many runs of a flow have completed. A run that has not, and that would try again, is a failure."""
    states = [run["state"] for run in runs(api, flow)]
    assert [state for state in states if state["name"] in ("Failed", "Crashed", "AwaitingRetry", "TimedOut")] == []
    return [state["name"] for state in states].count("Completed")


def test_a_model_is_trained_registered_served_watched_and_rolled_back(api: str) -> None:
    the_first_champion(api)
    days_are_scored_once_each()
    drift_asks_for_a_retraining(api)
    a_wrong_delivery_is_refused_and_a_right_one_taken(api)
    and_taken_back()
    assert mlflow_versions() == [1, 2, 3], "and nothing else was made"


def the_first_champion(api: str) -> None:
    challengers = json.loads(shell("bertline retrain --json"))["challengers"]
    assert challengers == [{"model": "headlines", "version": 1}]
    servers.wait_until(lambda: ended(api, "promote") == 1, "its event starts no promotion", PATIENCE, PAUSE)
    assert "promote  version 1, the story: it passed the gate" in shell("bertline history headlines")


def days_are_scored_once_each() -> None:
    """The worker was away for four days; the rows of the last two are of a topic that nobody has seen."""
    for day, topics in zip(days(), [["sport", "phone"]] * 3 + [["food"]] * 2, strict=True):
        arrive(day, topics)
    shell("prefect deployment run score-windows/nightly --watch")
    assert [file.name for file in Path("scored").iterdir()] == [f"headlines-{days()[4]}.parquet"]
    every = f"bertline backfill score nightly --from {days()[0]} --to {days()[4]}"
    lines = shell(every).splitlines()
    assert [line.split(": ")[1].split(" into")[0] for line in lines] == [
        *["60 rows"] * 3,
        "30 rows",
        "1 of 5 windows",
    ]
    assert shell(every) == "scored before: 5 of 5 windows\n"
    scored = tables.read(Path(f"scored/headlines-{days()[0]}.parquet"))
    assert set(scored.column("model_version").to_pylist()) == {1}


def drift_asks_for_a_retraining(api: str) -> None:
    """Which finds the same data, and so makes no new version."""
    output = shell("bertline watch nightly", status=4)
    assert [("drifted" in line) for line in output.splitlines()[:5]] == [False, False, False, True, True], output
    servers.wait_until(lambda: ended(api, "retrain") == 2, "drift starts no retraining", PATIENCE, PAUSE)
    assert mlflow_versions() == [1]
    shell("bertline watch nightly", status=4)  # which is no new event


def a_wrong_delivery_is_refused_and_a_right_one_taken(api: str) -> None:
    deliver({"sport": "phone", "phone": "sport", "food": "food"})
    shell("prefect deployment run new-data/sources --watch")
    servers.wait_until(lambda: ended(api, "promote") == 2, "new data leads to no challenger", PATIENCE, PAUSE)
    assert mlflow_versions() == [1, 2]
    assert "version 2" not in shell("bertline history headlines")
    assert "refused: " in shell("bertline promote headlines", status=3)

    deliver({topic: topic for topic in THINGS})
    assert "news: modified" in shell("bertline why prepare@headlines")
    shell("prefect deployment run retrain/weekly --watch")
    servers.wait_until(
        lambda: ended(api, "promote") == 4, "it leads to no challenger", PATIENCE, PAUSE
    )  # one was by hand
    assert "version 3" in shell("bertline history headlines")
    assert ended(api, "retrain") == 4, "the second retraining by drift would be one more"


def and_taken_back() -> None:
    before = datetime.now(UTC).isoformat()
    assert "headlines version 1 is the champion again" in shell(
        'bertline rollback headlines --to 1 --reason "version 3 is slow"'
    )
    already = shell("bertline promote headlines --version 1 --instead-of 1")
    assert already == "nothing to do\nheadlines version 1 is the champion\n"
    entries = json.loads(shell("bertline history headlines --json"))
    assert [(entry["action"], entry["version"], entry["actor"]) for entry in entries["events"]] == [
        ("promote", 1, "the story"),
        ("promote", 3, "the story"),
        ("rollback", 1, "the story"),
    ]
    assert "version 3" in shell(f"bertline history headlines --at {before}")
    traced = json.loads(shell("bertline lineage model headlines@champion --json"))
    assert [stage["stage"] for stage in traced["stages"]][-2:] == ["finetune@headlines", "export@headlines"]
    (md5,) = next(stage["wrote"].values() for stage in traced["stages"] if stage["stage"] == "prepare@headlines")
    assert "in headlines version 1, the champion" in shell(f"bertline lineage data {md5[:8]}")
    assert "finetune@headlines is up to date" in shell("bertline why finetune@headlines")
    shell("bertline rollback headlines", status=1)  # none is before the first


def mlflow_versions() -> list[int]:
    mlflow.set_tracking_uri(os.environ["MLFLOW_TRACKING_URI"])
    return sorted(int(version.version) for version in mlflow.MlflowClient().search_model_versions("name='headlines'"))
