"""A full queue refuses a prediction before its body is read, on a connection that goes on."""

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.routing import Match, Route

from pipelines.serving import connections
from pipelines.serving.app import application
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.direct_routes import RouteTable
from pipelines.serving.keys import Keys
from tests.support import raw_http, served, tiny

KEY = "Authorization: Bearer 0123456789abcdef\r\n"
BODY = json.dumps({"rows": [{"text": "犬"}]}).encode()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    return served.catalogue({"tiny": tiny.classifier(tmp_path_factory.mktemp("early") / "model")})


@pytest.fixture(scope="module")
def address(models: Catalogue) -> Iterator[str]:
    with served.serving(models, Keys.parse(["someone 0123456789abcdef"], "keys")) as one:
        yield one


@pytest.fixture
def full(models: Catalogue) -> Iterator[None]:
    with served.filled(models["tiny"], "someone"):
        yield


def head(path: str, length: int, more: str = KEY) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {length}\r\n{more}\r\n"
    ).encode()


class Client:
    """One connection, and the answers that come on it."""

    def __init__(self, address: str) -> None:
        url = urlsplit(address)
        self.socket = socket.create_connection((url.hostname, url.port), 20)
        self.file = self.socket.makefile("rb")

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self.socket.close()

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        status = int(self.file.readline().split()[1])
        headers = {}
        while line := self.file.readline().strip():
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        return status, headers, self.file.read(int(headers["content-length"]))


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/predict", "detail"),
        ("/predict/tiny", "detail"),
        ("/hf/tiny", "error"),
        ("/invocations", "message"),
        ("/invocations/tiny", "message"),
        ("/endpoints/tiny/invocations", "message"),
        ("/v2/models/tiny/infer", "error"),
        ("/v2/models/tiny/versions/1/infer", "error"),
    ],
)
def test_the_refusal_comes_before_the_body_in_the_shape_of_its_protocol(
    address: str, full: None, path: str, error: str
) -> None:
    with Client(address) as client:
        client.socket.sendall(head(path, 1000))  # the body is not sent
        status, headers, body = client.answer()
        assert status == 429
        assert json.loads(body)[error].startswith("too many requests are waiting; try again in ")
        assert int(headers["retry-after"]) >= 1
        assert int(headers["retry-after-ms"]) > 1000


def test_the_connection_goes_on_after_the_body_was_skipped(address: str, models: Catalogue) -> None:
    with Client(address) as client:
        with served.filled(models["tiny"], "someone"):
            client.socket.sendall(head("/predict/tiny", 300_000))
            status, headers, _ = client.answer()
        assert (status, headers.get("connection")) == (429, None)
        client.socket.sendall(b'{"rows": [' + b" " * 299_990)
        client.socket.sendall(head("/predict/tiny", len(BODY)) + BODY)
        status, _, body = client.answer()
        assert status == 200, body
        assert len(json.loads(body)["predictions"]) == 1


def test_a_connection_whose_body_came_late_idles_as_any_other(
    address: str, full: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    with Client(address) as client:
        for _ in range(2):
            client.socket.sendall(head("/predict/tiny", 1000) + b" " * 500)
            assert client.answer()[0] == 429
            client.socket.sendall(b" " * 500)
            time.sleep(1)


def test_a_client_that_waits_with_its_body_is_told_to_begin_anew(address: str, full: None) -> None:
    with Client(address) as client:
        client.socket.sendall(head("/predict/tiny", 1000, KEY + "Expect: 100-continue\r\n"))
        status, headers, _ = client.answer()
        assert (status, headers["connection"]) == (429, "close")
        assert client.file.read() == b""


def test_keys_and_names_are_looked_at_first_and_counts_have_the_route(address: str, full: None) -> None:
    with Client(address) as client:
        client.socket.sendall(head("/predict/tiny", 1000, ""))
        assert client.answer()[0] == 401
    key = {"Authorization": "Bearer 0123456789abcdef"}
    assert raw_http.post(address, "/predict/nobody", BODY, key).status == 404
    assert raw_http.post(address, "/predict/tiny", BODY, key).status == 429
    counts = raw_http.get(address, "/metrics", key).body.decode()
    assert 'bertline_requests_total{key="someone",route="/predict/{name}",status="429"}' in counts


def test_an_encoder_is_refused_only_if_neither_of_its_models_has_room(tmp_path: Path) -> None:
    from pipelines.serving.model_sources import Source

    opened = Catalogue()
    opened.serve({"encoder": Source("encoder", folder=tiny.encoder(tmp_path / "encoder"))})
    with served.serving(opened) as address:
        filling = json.dumps({"inputs": "私は[MASK]が好き。", "parameters": {}}).encode()
        opened["encoder"].batcher.queue.waiting = served.FULL
        assert raw_http.post(address, "/hf/encoder", filling).status == 200
        assert raw_http.post(address, "/hf/encoder", b'{"inputs": "a"}').status == 429
        opened["encoder.fill_mask"].batcher.queue.waiting = served.FULL
        assert raw_http.post(address, "/hf/encoder", filling).status == 429


def test_the_table_finds_the_route_that_the_router_would(models: Catalogue) -> None:
    routes = [route for route in application(models).router.routes if isinstance(route, Route)]
    table, matched = RouteTable(routes), 0
    paths = [route.path.replace("{name}", name).replace("{version}", "1") for route in routes for name in NAMES]
    for path in [*paths, "", "/", "//", "/predict/", "/predict//", "/v2/models//infer", "*"]:
        scope = {"type": "http", "method": "POST", "path": path, "headers": []}
        for method in ("POST", "GET", "PUT"):
            match = table.find(scope | {"method": method})
            first = next(
                (route for route in routes if route.matches(scope | {"method": method})[0] == Match.FULL), None
            )
            if match:
                assert match.route is first, path
                assert match.names == match.route.matches(scope)[1]["path_params"]
                matched += 1
    assert matched > 20


NAMES = ("tiny", "a b", "é", "a/b", "..", "infer")
