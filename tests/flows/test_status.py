"""bertline status: one screen of what is stale, served, scheduled and drifting; a part that fails stops no other."""

import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from dvc.repo import Repo

from flows.local import loopback, reachable
from pipelines.core import paths, tables
from pipelines.lifecycle import status, window_drift
from pipelines.reports import status_text
from tests.support import commands, json_answers

STAGES = {"stages": {"a": {"cmd": "echo a > a", "outs": ["a"]}, "b": {"cmd": "cp a b", "deps": ["a"], "outs": ["b"]}}}


@contextmanager
def answering(answers: dict[str, Any], key: str = "") -> Iterator[str]:
    """A server with these answers by path, to `key` alone if there is one; any other path needs another key."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            allowed = not key or self.headers["Authorization"] == f"Bearer {key}"
            self.send_response(200 if allowed and self.path in answers else 401)
            self.end_headers()
            self.wfile.write(json.dumps(answers.get(self.path)).encode())

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_parts_of_an_empty_folder_say_why_they_are_empty(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTLINE_SERVICE", "http://127.0.0.1:9")
    Path("params.yaml").write_text("{}\n")
    answer = json.loads(commands.bertline("status --json").require(0).out)
    assert set(answer) == {"stale", "champions", "last_runs", "drift", "disk", "served", "schedules"}
    assert "problem" in answer["stale"]
    assert answer["served"] == {"address": "http://127.0.0.1:9", "problem": "nothing answers there"}
    assert answer["disk"]["free"] > 0
    Path("params.yaml").write_text("score: {a: {since: 2026-11-01}}\n")
    answer["stale"] = status.parts()["stale"]
    assert answer["stale"]["problem"].startswith("params.yaml: score.a.since: ")
    text = status_text.plain(answer)
    assert "nothing is registered; bertline retrain" in text
    assert "no Prefect server is up; `bertline up` starts one" in text


def test_stale_stages_and_the_last_runs(checkout: Path) -> None:
    Repo.init(no_scm=True).close()
    Path("params.yaml").write_text("resources: {threads: 1}\n")
    Path("dvc.yaml").write_text(yaml.safe_dump(STAGES))
    assert list(status.stale()["would_run"]) == ["a", "b"]
    json_answers.require_keys("run", commands.bertline("run --dry --json").require(0).out, 1)
    answer = json_answers.require_keys("run", commands.bertline("run --json").require(0).out)
    assert sorted(answer["ran"]) == ["a", "b"]
    assert status.stale() == {"stages": 2, "would_run": {}}
    assert {run["stage"] for run in status.last_runs()} == {"a", "b"}
    Path("a").write_text("other")
    assert status.stale()["would_run"] == {"a": "a: modified", "b": "a: modified"}
    text = status_text.plain(status.parts() | {"served": {"problem": "x"}, "schedules": {"problem": "y"}})
    assert "2 of 2 stages would run\n  a: a: modified\n" in text
    assert max(map(len, text.splitlines())) <= status_text.WIDE + 2


def test_drift_is_that_of_the_last_window_and_the_alarm_that_of_the_rule(checkout: Path) -> None:
    score = "score: {nightly: {model: m, source: 'in/{window}', target: 'out/{window}', since: '2026-11-01'}}\n"
    Path("params.yaml").write_text(score + "watch: {nightly: {least: 2, of: 3, vocabulary: 0.2}}\n")
    Path("out").mkdir()
    assert status.drifted() == [{"job": "nightly", "window": None, "windows": 0, "statistics": [], "alarm": False}]
    for day, value in (("2026-11-01", 0.3), ("2026-11-02", 0.1), ("2026-11-03", 0.3)):
        line = {"window": day, "model_version": 1, "rows": 9, "statistic": "vocabulary", "drifted": value > 0.2}
        rows = pa.Table.from_pylist([line | {"value": value, "by_chance": 0.1, "limit": 0.2}], window_drift.SCHEMA)
        target = Path(f"out/{day}")
        target.touch()
        schema = rows.schema.with_metadata({window_drift.OF: window_drift._state(target)})
        tables.write(paths.drift("nightly") / f"{day}.parquet", rows.cast(schema).to_batches(), schema)
    assert status.drifted() == [
        {"job": "nightly", "window": "2026-11-03", "windows": 3, "statistics": ["vocabulary"], "alarm": True}
    ]


def test_the_served_models_and_the_schedules_of_a_server(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = {
        "name": "calm-owl",
        "deployment_id": "7",
        "state_name": "Scheduled",
        "end_time": "t",
        "expected_start_time": "u",
    }
    answers = {
        "/models": [{"name": "headlines", "version": 3, "labels": []}],
        "/api/flow_runs/filter": [run, run | {"name": "later"}, run | {"deployment_id": "8"}],
        "/api/flows/filter": [{"id": "1", "name": "retrain"}],
        "/api/deployments/filter": [
            {"id": "7" if name == "weekly" else "8", "name": name, "flow_id": "1"} for name in ("weekly", "daily")
        ],
    }
    with answering(answers) as address:
        monkeypatch.setenv("BERTLINE_SERVICE", address)
        assert reachable.served() == {"address": address, "models": [{"name": "headlines", "version": 3}]}
        monkeypatch.setenv("PREFECT_API_URL", f"{address}/api")
        runs = reachable.flow_runs()
        first = {"run": "calm-owl", "deployment": "retrain/weekly", "state": "Scheduled", "at": "u"}
        assert runs["next"] == [first, first | {"deployment": "retrain/daily"}]
        del answers["/models"]
        assert reachable.served()["problem"] == "it answers, and needs a key"
    assert "does not answer" in reachable.flow_runs()["problem"]


def test_the_service_is_asked_with_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering({"/models": [{"name": "headlines", "version": 3}]}, key="k" * 16) as address:
        monkeypatch.setenv("BERTLINE_SERVICE", address)
        assert reachable.served()["problem"] == "it answers, and needs a key"
        monkeypatch.setenv("BERTLINE_SERVICE_KEY", "k" * 16)
        assert reachable.served()["models"] == [{"name": "headlines", "version": 3}]


def test_no_proxy_comes_between_bertline_and_this_machine(checkout: Path) -> None:
    Path("params.yaml").write_text("{}\n")
    answers = {"/models": [{"name": "headlines", "version": 3}], "/api/flow_runs/filter": []}
    with answering(answers) as address, answering({}) as proxy:
        behind = {"http_proxy": proxy, "BERTLINE_SERVICE": address, "PREFECT_API_URL": f"{address}/api"}
        for exceptions in ({}, {"NO_PROXY": "intranet.example"}):
            rest = {name: value for name, value in os.environ.items() if name.lower() != "no_proxy"}
            command = [sys.executable, "-m", "flows.cli", "status", "--json"]
            done = subprocess.run(command, env=rest | behind | exceptions, capture_output=True, text=True, check=True)
            answer = json.loads(done.stdout)
            assert answer["served"] == {"address": address, "models": answers["/models"]}
            assert answer["schedules"] == {"address": f"{address}/api", "last": [], "next": []}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, "127.0.0.1,localhost,::1"),
        ({"NO_PROXY": "a.example, localhost"}, "a.example,localhost,127.0.0.1,::1"),
        ({"no_proxy": "b.example", "NO_PROXY": "a.example"}, "b.example,127.0.0.1,localhost,::1"),
        ({"no_proxy": "*"}, "*"),
    ],
)
def test_other_exceptions_from_the_proxy_stay(
    before: dict[str, str], after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in loopback.VARIABLES:
        monkeypatch.setenv(name, before.get(name, ""))
    for _ in range(2):
        loopback.without_proxy()
        assert [os.environ[name] for name in loopback.VARIABLES] == [after, after]
    assert urllib.request.proxy_bypass("127.0.0.1:8000")
