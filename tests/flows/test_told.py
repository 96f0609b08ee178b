"""What flows tell: new data, once for each state of it; and a flow that failed, to whoever wants to know."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml
from prefect import flow

from flows.notices import HOOKS
from pipelines.graph import execute, why

pytestmark = pytest.mark.slow


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, str]]]:
    """What is posted to the address of BERTLINE_NOTIFY."""
    found: list[dict[str, str]] = []

    class Ear(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Ear) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("BERTLINE_NOTIFY", f"http://127.0.0.1:{server.server_port}/")
        yield found
        server.shutdown()
        thread.join()


@flow(name="breaks", flow_run_name="one", **HOOKS)
def breaks(why: str = "the disk is full") -> None:
    raise ValueError(why)


@pytest.mark.usefixtures("checkout")
def test_a_flow_that_fails_is_told(heard: list[dict[str, str]]) -> None:
    with pytest.raises(ValueError, match="the disk is full"):
        breaks()
    (told,) = heard
    assert told["text"].startswith("bertline: breaks one: Failed: ")
    assert told["text"].endswith("the disk is full")


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("address", ["http://127.0.0.1:9/s3cr3t", "s3cr3t", "http://127.0.0.1:9/a s3cr3t"])
def test_a_deaf_address_does_not_hide_the_failure_and_is_not_told(
    address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    monkeypatch.setenv("BERTLINE_NOTIFY", address)
    with pytest.raises(ValueError, match="the disk is full"):
        breaks()
    said = capsys.readouterr().err
    assert "the address in BERTLINE_NOTIFY was not told: " in said
    assert "s3cr3t" not in said


@pytest.mark.usefixtures("checkout")
def test_a_failure_is_told_without_passwords(heard: list[dict[str, str]]) -> None:
    with pytest.raises(ValueError, match="no answer"):
        breaks.with_options(name="asks")("no answer from http://me:s3cr3t@127.0.0.1:9/x")
    (told,) = heard
    assert told["text"].endswith("no answer from http://127.0.0.1:9/x")


def test_a_source_that_changed_is_new_data_and_code_is_not(checkout: Path) -> None:
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q", "--no-scm"], check=True)
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
    execute.run()
    assert why.changed_sources() == {}
    (checkout / "code.py").write_text("edited")
    assert why.changed_sources() == {}
    (checkout / "rows/b.tsv").write_text("new rows")
    first = why.changed_sources()
    assert list(first) == ["rows"]
    (checkout / "rows/b.tsv").write_text("newer rows")
    (checkout / "more.tsv").write_text("newer rows")
    second = why.changed_sources()
    assert sorted(second) == ["more.tsv", "rows"]
    assert second["rows"] != first["rows"]
