"""What flows tell: events, once for each state of what they tell of; and a failure, to whoever wants to know."""

import json
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import mlflow
import pytest
import yaml
from dvc.repo import Repo
from prefect import flow
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows import failure_hook, prefect_events, retrain
from flows.failure_hook import HOOKS
from flows.new_data import new_data
from pipelines.core.errors import InputError
from pipelines.core.ports import free_port
from pipelines.graph import executor, why
from pipelines.tracking import ledger, registry
from tests.support import ledgers

pytestmark = pytest.mark.slow


@contextmanager
def listening(port: int = 0) -> Iterator[tuple[str, list[Any]]]:
    """A server that takes whatever is posted; its address, and what it has taken."""
    events: list[Any] = []

    class Ear(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            events.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def do_GET(self) -> None:  # Prefect's client asks for a token, which an older server does not have
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            return

    with HTTPServer(("127.0.0.1", port), Ear) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", events
        server.shutdown()
        thread.join()


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, str]]]:
    """What is posted to the address of BERTLINE_NOTIFY."""
    with listening() as (address, messages):
        monkeypatch.setenv("BERTLINE_NOTIFY", address)
        yield messages


@pytest.fixture
def events(checkout: Path) -> Iterator[list[list[dict[str, Any]]]]:
    """The events that Prefect's server is told, each in a list of its own."""
    with listening() as (address, events), temporary_settings({PREFECT_API_URL: f"{address}/api"}):
        yield events
    mlflow.set_tracking_uri(None)


@flow(name="breaks", flow_run_name="one", **HOOKS)
def breaks(why: str = "the disk is full") -> None:
    raise ValueError(why)


@pytest.mark.usefixtures("checkout")
def test_a_failed_flow_is_reported(heard: list[dict[str, str]]) -> None:
    with pytest.raises(ValueError, match="the disk is full"):
        breaks()
    (notice,) = heard
    assert notice["text"].startswith("bertline: breaks one: Failed: ")
    assert notice["text"].endswith("the disk is full")


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("address", ["http://127.0.0.1:9/s3cr3t", "s3cr3t", "http://127.0.0.1:9/a s3cr3t"])
def test_an_unreachable_webhook_does_not_hide_the_failure(
    address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    monkeypatch.setattr(failure_hook, "PAUSES", (0, 0))
    monkeypatch.setenv("BERTLINE_NOTIFY", address)
    with pytest.raises(ValueError, match="the disk is full"):
        breaks()
    printed = capsys.readouterr().err
    assert "BERTLINE_NOTIFY: the message was not sent: " in printed
    assert "s3cr3t" not in printed


@pytest.mark.usefixtures("checkout")
def test_a_failure_is_reported_without_passwords(heard: list[dict[str, str]]) -> None:
    with pytest.raises(ValueError, match="no answer"):
        breaks.with_options(name="asks")("no answer from http://me:s3cr3t@127.0.0.1:9/x")
    (message,) = heard
    assert message["text"].endswith("no answer from http://127.0.0.1:9/x")


@pytest.mark.usefixtures("checkout")
def test_a_notice_is_short_and_sent_again_until_it_arrives(
    heard: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [OSError("no route"), OSError("no route")]
    post = urllib.request.urlopen

    def unreliable(*arguments: Any, **named: Any) -> Any:
        if answers:
            raise answers.pop()
        return post(*arguments, **named)

    monkeypatch.setattr(failure_hook, "PAUSES", (0, 0))
    monkeypatch.setattr(urllib.request, "urlopen", unreliable)
    with pytest.raises(ValueError, match="2026"):
        breaks.with_options(name="long")("2026-11-01 already scored; " * 2000)
    (notice,) = heard
    assert len(notice["text"]) < 1300


@pytest.fixture
def graph(checkout: Path) -> Path:
    """Two stages that have run: one reads a folder and code, the other what the first wrote and a file."""
    Repo.init(no_scm=True).close()
    (checkout / "rows").mkdir()
    for name in ("rows/a.tsv", "code.py", "more.tsv"):
        (checkout / name).write_text(name)
    stages = {
        "a": {"cmd": "cat rows/a.tsv > a.txt", "deps": ["rows", "code.py"], "outs": ["a.txt"]},
        "b": {"cmd": "cat a.txt more.tsv > b.txt", "deps": ["a.txt", "more.tsv"], "outs": ["b.txt"]},
    }
    (checkout / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    (checkout / "params.yaml").write_text("resources: {threads: 1}\n")
    assert why.changed_sources() == {}, "what was never read is no change"
    executor.run()
    return checkout


def test_a_source_that_changed_is_new_data_and_code_is_not(graph: Path) -> None:
    assert why.changed_sources() == {}
    (graph / "code.py").write_text("edited")
    assert why.changed_sources() == {}
    (graph / "rows/b.tsv").write_text("new rows")
    first = why.changed_sources()
    assert list(first) == ["rows"]
    (graph / "rows/b.tsv").write_text("newer rows")
    (graph / "more.tsv").write_text("newer rows")
    second = why.changed_sources()
    assert sorted(second) == ["more.tsv", "rows"]
    assert second["rows"] != first["rows"]


def test_new_data_is_announced_once_and_a_restored_delivery_again(
    events: list[list[dict[str, Any]]], graph: Path
) -> None:
    usual = (graph / "more.tsv").read_text()
    for count, delivery in enumerate(["wrong rows", usual, "wrong rows", usual], start=1):
        (graph / "more.tsv").write_text(delivery)
        for _ in range(2):
            assert new_data.fn() == ["more.tsv changed"]
            assert len(events) == count
        executor.run()  # nobody looks between this and the next delivery
    (event,) = events[-1]
    assert (event["event"], event["payload"]) == ("bertline.data", {"model": "data", "sources": "more.tsv"})
    assert event["resource"]["prefect.resource.id"] == "bertline.about.data"

    (graph / "more.tsv").write_text("wrong rows")
    new_data.fn()
    (graph / "more.tsv").write_text(usual)
    assert new_data.fn() == []
    (graph / "more.tsv").write_text("wrong rows")
    new_data.fn()
    assert len(events) == 6, "it was away in between"
    for delivery in ("wrong rows", "other rows"):
        (graph / "more.tsv").write_text(delivery)
        executor.run()
    (graph / "more.tsv").write_text("wrong rows")
    new_data.fn()
    assert len(events) == 7, "the last run has read other rows"


def test_a_challenger_is_announced_again_after_a_rollback(events: list[list[dict[str, Any]]]) -> None:
    """Its gate may say something else now: the champion is another."""
    ledgers.register_versions()
    first, second = (registry.version("m", number) for number in (1, 2))
    ledger.append("m", ledger.read("m"), "promote", 1, "a test")
    for count in (1, 2):
        for _ in range(2):
            retrain.tell([second])
            assert len(events) == count
        for action, version in (("promote", 2), ("rollback", 1)):  # nobody looks between these
            ledger.append("m", ledger.read("m"), action, version, "a test")
    assert [sent[0]["payload"] for sent in events] == [{"model": "m", "version": "2"}] * 2
    retrain.tell([second])
    retrain.tell([first])  # the champion's data is back, and then that of the other again
    retrain.tell([second])
    assert len(events) == 4


def test_an_undelivered_event_is_sent_again(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    port = free_port()
    with temporary_settings({PREFECT_API_URL: f"http://127.0.0.1:{port}/api"}):
        with pytest.raises(InputError, match=r"server at http://\S+ did not take bertline.data of data: "):
            prefect_events.tell_once("data", "new", "data", "data")
        prefect_events.tell("champion", "m", version="1")  # it is champion, whoever hears of it
        assert "did not take bertline.champion of m: " in capsys.readouterr().err
        with listening(port) as (_, events):
            for _ in range(2):
                prefect_events.tell_once("data", "new", "data", "data")
            assert len(events) == 1
    prefect_events.tell_once("data", "newer", "data", "data")  # without a server nobody listens
    assert json.loads(prefect_events.TOLD.read_text()) == {"data": "new"}


def test_concurrent_flows_keep_each_others_events(events: list[list[dict[str, Any]]]) -> None:
    subjects = [f"challenger {number}" for number in range(12)]
    with ThreadPoolExecutor(len(subjects)) as pool:
        for future in [
            pool.submit(copy_context().run, prefect_events.tell_once, name, "new", "challenger", "m")
            for name in subjects
        ]:
            future.result()
    assert sorted(json.loads(prefect_events.TOLD.read_text())) == sorted(subjects)
    assert len(events) == len(subjects)
