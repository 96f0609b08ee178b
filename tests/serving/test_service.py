"""The HTTP service, MLflow's own service and the batch job on Ray give the same predictions as the predictor."""

import http.client
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import jsonschema
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.local.http_service import Settings, ask, serving, serving_in_ray, wait_for
from pipelines.core.errors import InputError
from pipelines.core.ports import free_port
from pipelines.inference.predictor import Predictor
from pipelines.scoring import batch_scoring
from pipelines.serving import bodies, catalogue, docs_page
from pipelines.serving.model_sources import Source
from pipelines.tracking import ledger, registry, store
from tests.support import certificates, forked, half_sent, raw_http, servers, tiny
from tests.support.champion import TEXTS
from tests.support.places import CODE, ROOT

pytestmark = pytest.mark.slow


def test_the_service_answers_as_the_predictor_does_and_follows_the_champion(
    version: registry.Version, checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BERTLINE_QUIET", "")
    rows = pa.table({"id": [str(i) for i in range(len(TEXTS))], "text": TEXTS})
    wanted = {row["id"]: row for row in Predictor.load(registry.folder(version)).predict(rows).to_pylist()}
    monkeypatch.setattr(catalogue, "FOLLOW_SECONDS", 0.5)
    with serving({"tiny": Source("tiny")}) as address:
        _check_service(address, wanted)
        _check_what_openapi_says(address)
        _check_that_a_generated_client_works(address, checkout, monkeypatch)
        _check_bodies_that_attack(address)
        _check_that_it_follows(address, checkout)
        _check_that_it_goes_on_without_a_ledger(address, lambda: capsys.readouterr().err)


def test_replicas_in_ray_answer_as_the_predictor_does_and_follow_the_champion(
    version: registry.Version, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("BERTLINE_QUIET", "")
    rows = pa.table({"id": [str(i) for i in range(len(TEXTS))], "text": TEXTS})
    wanted = {row["id"]: row for row in Predictor.load(registry.folder(version)).predict(rows).to_pylist()}
    with serving_in_ray({"tiny": Source("tiny")}) as address:
        _check_service(address, wanted)
        _check_what_openapi_says(address)
        _check_bodies_that_attack(address)
        _check_that_it_follows(address, checkout)
        _check_that_it_goes_on_without_a_ledger(address, _said_in_ray)


def test_what_cannot_be_served_is_one_sentence(version: registry.Version) -> None:
    with (
        pytest.raises(InputError, match=r"no registered model 'tinny' \(did you mean 'tiny'\?\)"),
        serving({"t": Source("tinny")}),
    ):
        pass
    for host, port in (("127.0.0.1", 70_000), ("192.0.2.77", 8000)):
        said = f"{host}:{port}: no service can listen there"
        with pytest.raises(InputError, match=said), serving({"t": Source("tiny")}, Settings(host, port)):
            pass


@pytest.mark.skipif(not os.path.exists("/proc/net/if_inet6"), reason="this machine has no IPv6")
@pytest.mark.parametrize(("encrypted", "by"), [(False, signal.SIGTERM), (True, signal.SIGTERM), (False, signal.SIGHUP)])
def test_sigterm_lets_requests_be_answered_and_ends_all(
    encrypted: bool,
    by: signal.Signals,
    version: registry.Version,
    checkout: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As of replicas in Ray, which test_replicas.py has."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (checkout / "params.yaml").write_text(tiny.PARAMS)
    port = free_port()
    trusted, key = certificates.written(tmp_path / "tls")
    tls = ["--tls-certificate", str(trusted), "--tls-key", str(key)] if encrypted else []
    with forked.started("flows.cli", "serve", "tiny", "--port", str(port), "--log-format", "off", *tls) as process:
        process.until(lambda: "Ctrl-C" in process.printed())
        half_sent.check_sigterm(process, port, replicas=False, trusted=trusted if encrypted else None, by=by)


def test_a_second_interrupt_closes_the_connections(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request in flight gets no answer then; its model has ended, and the error would be the service's."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    body, port = raw_http.encoded({"rows": [{"text": "新型スマートフォンの予約" * 58}] * 256}), free_port()
    encoder = f"mini={ROOT / 'encoders' / 'mini-ja'}"
    with ThreadPoolExecutor(1) as pool, forked.started("flows.cli", "serve", encoder, "--port", str(port)) as process:
        process.until(lambda: "Ctrl-C" in process.printed())
        answer = pool.submit(raw_http.post, f"http://127.0.0.1:{port}", "/predict", body)
        for _ in range(2):
            time.sleep(0.3)
            assert not answer.done()
            os.kill(process.pid, signal.SIGINT)
        with pytest.raises((OSError, http.client.HTTPException)):
            answer.result()
        assert process.wait() == 130
    assert "Traceback" not in process.said()


def test_the_server_has_ended_when_its_models_end() -> None:
    """A second interrupt meets the wait for the requests in flight; what still ran would fail without its threads."""
    body = raw_http.encoded({"rows": [{"text": "新型スマートフォンの予約" * 58}] * 256})
    source = Source("mini", folder=ROOT / "encoders" / "mini-ja")
    with ThreadPoolExecutor(1) as pool, pytest.raises(KeyboardInterrupt), serving({"mini": source}) as address:
        answer = pool.submit(raw_http.post, address, "/predict", body)
        time.sleep(0.5)
        assert not answer.done()
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        raise KeyboardInterrupt
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("http")]
    with pytest.raises((OSError, http.client.HTTPException)):
        answer.result()


def _check_that_a_generated_client_works(address: str, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that openapi-python-client generates from /openapi.json reads an answer, and an error."""
    with urllib.request.urlopen(f"{address}/openapi.json") as answer:
        Path("openapi.json").write_bytes(answer.read())
    make = ["generate", "--path", "openapi.json", "--output-path", "generated", "--meta", "none"]
    subprocess.run([sys.executable, "-m", "openapi_python_client", *make], check=True, capture_output=True)
    monkeypatch.syspath_prepend(str(checkout))
    made, sent = importlib.import_module("generated"), importlib.import_module("generated.models")
    predict = importlib.import_module("generated.api.default.predict_first_predict_post").sync
    with made.Client(base_url=address) as client:
        right = predict(client=client, body=sent.Request(rows=[sent.Row(text=TEXTS[0])], scores=True))
        wrong = predict(client=client, body=sent.Request(rows=[sent.Row(question="犬", context="犬")]))
    (plain,) = ask(address, "/predict", {"rows": [{"text": TEXTS[0]}]})["predictions"]
    assert right.predictions[0].label == plain["label"]
    assert isinstance(wrong, sent.Problem)
    assert wrong.detail == "tiny version 1 takes text, but not context"


def _check_that_it_follows(address: str, checkout: Path) -> None:
    example = {"text": "犬"}
    model = tiny.classifier(checkout / "other", seed=9)
    other = registry.register("tiny", model, CODE, "single", example, {})
    ledger.append("tiny", ledger.read("tiny"), "promote", other.version, "a test")
    until, body = time.monotonic() + 60, json.dumps({"rows": [example]})
    with closing(http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)) as open_connection:
        while ask(address, "/model")["version"] != other.version and time.monotonic() < until:
            open_connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
            assert len(json.load(open_connection.getresponse())["predictions"]) == 1
            time.sleep(0.2)
        open_connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
        assert json.load(open_connection.getresponse())["version"] == 2, "the change reaches a connection that stays"
    assert ask(address, "/model")["version"] == other.version == 2


def _check_that_it_goes_on_without_a_ledger(address: str, logged: Callable[[], str]) -> None:
    """Damage the database's file in place, because the replica would keep a removed file open."""
    (store.HOME / "mlflow.db").write_bytes(b"no database" * 1000)
    servers.wait_until(lambda: "tiny version 2 stays in use" in logged(), "it has looked at the ledger", 120)
    assert ask(address, "/predict", {"rows": [{"text": "犬"}]})["version"] == 2


def _said_in_ray() -> str:
    """The text that the processes of this Ray have written to stderr."""
    words = [word for child in psutil.Process().children(recursive=True) for word in child.cmdline()]
    places = {word.partition("=")[2] for word in words if word.startswith("--log_dir=")}
    assert places
    return "".join(file.read_text(errors="replace") for place in places for file in Path(place).glob("worker-*.err"))


def test_ray_data_answers_as_the_predictor_does(
    version: registry.Version, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    rows = pa.table({"id": [str(i) for i in range(len(TEXTS))], "text": TEXTS})
    wanted = {row["id"]: row for row in Predictor.load(registry.folder(version)).predict(rows).to_pylist()}
    source = checkout / "day=2026-11-01" / "in.pq"  # Ray would take the folder as a column, and reject the suffix
    source.parent.mkdir()
    pq.write_table(rows, source, row_group_size=2)
    pq.write_table(rows.slice(0, 0), checkout / "none.parquet")
    batch_scoring.score(source, checkout / "out.parquet", version, ray=True)
    found = pq.read_table(checkout / "out.parquet").to_pylist()
    assert batch_scoring.score(checkout / "none.parquet", checkout / "no row.parquet", version, ray=True) == 0
    import ray

    ray.shutdown()
    assert [row["id"] for row in found] == list(wanted)
    assert pq.read_schema(checkout / "no row.parquet").names == list(found[0])
    batch_scoring.score(source, checkout / "out.parquet", version)
    assert pq.read_table(checkout / "out.parquet").column_names == list(found[0])
    for row in found:
        assert row["label"] == wanted[row["id"]]["label"]
        assert row["score"] == pytest.approx(wanted[row["id"]]["score"], abs=1e-5)


def test_mlflows_own_server_answers_as_the_predictor_does(version: registry.Version, checkout: Path) -> None:
    wanted = Predictor.load(registry.folder(version)).predict(pa.table({"text": TEXTS})).to_pylist()
    address = ["--host", "127.0.0.1", "--port", str(port := free_port())]
    tools = Path(sys.executable).parent
    served = ["-m", "models:/tiny@champion", "--env-manager", "local", *address]
    command = [str(tools / "mlflow"), "models", "serve", *served]
    environment = {**os.environ, "MLFLOW_TRACKING_URI": store.uri(), "PYTHONPATH": str(ROOT)}
    environment["PATH"] = f"{tools}{os.pathsep}{environment['PATH']}"  # MLflow looks for uvicorn there
    with open("serve.log", "w") as log:
        server = psutil.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        wait_for(f"http://127.0.0.1:{port}/ping", 180)
        answer = ask(f"http://127.0.0.1:{port}", "/invocations", {"dataframe_records": [{"text": t} for t in TEXTS]})
    finally:
        family = [*server.children(recursive=True), server]
        for process in family:
            process.kill()
        psutil.wait_procs(family, 20)
    assert [row["label"] for row in answer["predictions"]] == [row["label"] for row in wanted]
    scores = [row["score"] for row in answer["predictions"]]
    assert scores == pytest.approx([row["score"] for row in wanted], abs=1e-5)


def _check_service(address: str, wanted: dict[str, dict]) -> None:
    assert ask(address, "/health") == {"status": "ok"}
    about = ask(address, "/model")
    assert (about["model"], about["version"], about["labels"]) == ("tiny", 1, list(tiny.LABELS))
    answer = ask(address, "/predict", {"rows": [{"text": text} for text in TEXTS], "scores": True})
    assert len(answer["predictions"]) == len(TEXTS)
    for found, row in zip(answer["predictions"], wanted.values(), strict=True):
        assert found["label"] == row["label"]
        assert found["score"] == pytest.approx(row["score"], abs=1e-5)
        assert list(found["scores"].values()) == pytest.approx(row["scores"], abs=1e-5)
    assert "/predict" in ask(address, "/openapi.json")["paths"]
    for body in (
        {"rows": []},
        {"rows": [{"txt": "a"}]},
        {"rows": [{"text": "a", "text_pair": "b"}]},
        {"rows": [{"text": 1}]},
        {"rows": [{"text": float("nan")}]},  # not valid JSON, but Python writes and reads it
        {"rows": [{"text": "\ud800"}]},
    ):
        with pytest.raises(InputError, match=": 422: "):
            ask(address, "/predict", body)


def _check_what_openapi_says(address: str) -> None:
    """Every response matches one that openapi.json declares, as generated clients require."""
    spec = ask(address, "/openapi.json")
    seen = set()
    good = json.dumps({"rows": [{"text": "犬"}]}).encode()
    for path, body in (
        *(("/predict", each) for each in (good, b"{", b'{"rows": []}', b"\xff", b'{"rows": [{"text": "\xff"}]}')),
        ("/predict", b" " * 4_000_001),
        ("/model", None),
        ("/models", None),
        ("/health", None),
    ):
        request = urllib.request.Request(address + path, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as found:
                status, text = found.status, found.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        seen.add(status)
        declared = spec["paths"][path]["post" if body else "get"]["responses"][str(status)]
        schema = declared["content"]["application/json"]["schema"] | {"components": spec["components"]}
        jsonschema.Draft202012Validator(schema).validate(json.loads(text))
    assert seen >= {200, 413, 422}
    with urllib.request.urlopen(f"{address}/docs", timeout=60) as found:
        assert found.read().decode() == docs_page.HTML


def _check_bodies_that_attack(address: str) -> None:
    """Many slow bodies do not block other requests, an endless body is cut off, and a duplicate key is refused."""
    host, _, port = address.removeprefix("http://").partition(":")
    head = f"POST /predict HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    twice = '{"rows": [{"text": "a"}], "rows": [{"text": "b"}]}'
    with ExitStack() as stack:
        double = stack.enter_context(socket.create_connection((host, int(port)), 60))
        double.sendall(f"{head}Content-Length: {len(twice)}\r\n\r\n{twice}".encode())
        assert double.recv(100).split()[1] == b"422"
        began = time.monotonic()
        slow = [stack.enter_context(socket.create_connection((host, int(port)), 60)) for _ in range(40)]
        for each in slow:
            each.sendall(f'{head}Content-Length: 1000\r\n\r\n{{"rows"'.encode())
        time.sleep(1)
        assert len(ask(address, "/predict", {"rows": [{"text": "犬"}]})["predictions"]) == 1
        assert time.monotonic() - began < bodies.SECONDS, "it did not wait for them"
        assert {each.recv(100).split()[1] for each in slow} == {b"408"}
        endless = stack.enter_context(socket.create_connection((host, int(port)), 60))
        endless.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        with suppress(OSError):
            for _ in range(200):
                endless.sendall(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        assert endless.recv(100).split()[1] == b"413"
