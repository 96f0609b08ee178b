"""The service against its own OpenAPI document: for any body an answer is declared and fits; nothing is a 5xx."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import jsonschema
import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.serving import bodies, row_batcher
from pipelines.serving.admission import BusyError
from pipelines.serving.app import application
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.keys import Keys
from pipelines.serving.model_sources import Source
from tests.support import bodies_of_schemas, compressed, tiny

KINDS = ("single", "tagging")
pytestmark = pytest.mark.slow  # opening models takes seconds
SPEC = application(Catalogue()).openapi()
OPERATIONS = [(method.upper(), path) for path, verbs in SPEC["paths"].items() for method in verbs]
WITH_BODIES = [(method, path) for method, path in OPERATIONS if "requestBody" in SPEC["paths"][path][method.lower()]]
KNOWN = SPEC["components"]["schemas"]
KEY = {"Authorization": "Bearer 0123456789abcdef"}
GOOD: dict[str, Any] = {  # a right body for each operation with one, and the names of models that it is for
    "/predict": {"rows": [{"text": "犬"}]},
    "/hf": {"inputs": "犬"},
    "/invocations": {"dataframe_records": [{"text": "犬"}]},
    "/endpoints": {"dataframe_records": [{"text": "犬"}]},
    "/v2": {"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["犬"]}]},
    "/v1": {"input": "犬", "model": "encoder"},
    "/models": {"source": "none@champion"},
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalogue]:
    place = tmp_path_factory.mktemp("models")
    sources = {kind: Source(kind, folder=compressed.teacher("bert", kind, place / kind)) for kind in KINDS}
    sources["encoder"] = Source("encoder", folder=tiny.encoder(place / "encoder"))
    opened = Catalogue(changeable=False)
    opened.serve(sources)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def client(models: Catalogue) -> Iterator[TestClient]:
    with TestClient(application(models)) as one:  # one event loop for all requests
        yield one


def check(answer: httpx.Response, method: str, path: str) -> None:
    """The status of an answer is declared, and its body fits the schema of that status."""
    responses = SPEC["paths"][path][method.lower()]["responses"]
    assert str(answer.status_code) in responses, (answer.status_code, answer.text)
    content = responses[str(answer.status_code)].get("content", {})
    kind = answer.headers.get("content-type", "").partition(";")[0]
    if answer.status_code == 204:
        assert not answer.content
    elif path not in ("/ping", "/version") and kind == "application/json":
        schema = content[kind]["schema"]
        assert schema
        whole = schema | {"components": SPEC["components"]}
        jsonschema.Draft202012Validator(whole).validate(answer.json())
    assert kind in content or answer.status_code == 204, kind
    assert answer.status_code < 400 or kind == "application/json", answer.headers


def body_of(path: str, method: str) -> st.SearchStrategy[Any]:
    content = SPEC["paths"][path][method.lower()]["requestBody"]["content"]
    schema = content["application/json"]["schema"]
    fits = bodies_of_schemas.fitting(schema, KNOWN | schema.get("$defs", {}))
    good = st.just(next(body for prefix, body in GOOD.items() if path.startswith(prefix)))
    return fits | bodies_of_schemas.mutated(fits) | bodies_of_schemas.mutated(good) | good


NAMES = st.sampled_from([*KINDS, "encoder", "encoder.fill_mask"]) | st.text(min_size=1, max_size=8)


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=map(" ".join, OPERATIONS))
def test_any_request_is_answered_as_declared(client: TestClient, method: str, path: str) -> None:
    statuses = set()

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
    @given(st.data())
    def ask(data: st.DataObject) -> None:
        filled = path
        for parameter in ("name", "version"):
            if f"{{{parameter}}}" in filled:
                value = data.draw(NAMES if parameter == "name" else st.sampled_from(["0", "1", "x", "é"]))
                if value in (".", "..") or "/" in value:  # clients resolve these before they ask
                    return
                filled = filled.replace(f"{{{parameter}}}", quote(value, safe=""))
        content = None
        if (method, path) in WITH_BODIES:
            content = json.dumps(data.draw(body_of(path, method))).encode()
        answer = client.request(method, filled, content=content, headers={"Content-Type": "application/json"})
        if answer.status_code in (404, 405) and "no such path" in answer.text:
            return  # a name that changes the path
        check(answer, method, path)
        assert answer.status_code < 500, answer.text
        statuses.add(answer.status_code)

    ask()
    assert statuses
    if (method, path) in WITH_BODIES and method == "POST":
        assert len(statuses) > 1, "some are right and some are wrong"


def filled(path: str) -> str:
    return path.replace("{name}", "encoder" if path.startswith("/hf") else "single").replace("{version}", "0")


def good(path: str) -> Any:
    return next(body for prefix, body in GOOD.items() if path.startswith(prefix))


class Sender:
    """Requests of one operation to a service with keys; each answer is declared."""

    def __init__(self, models: Catalogue, method: str, path: str) -> None:
        self.models, self.method, self.path, self.sent = models, method, path, set[int]()

    def __call__(
        self, status: int, content: Any = None, to: str = "", hosts: tuple[str, ...] = (), **headers: str
    ) -> None:
        """Send a body, by default the right one, and check the status of the answer."""
        keys = Keys.parse(["all 0123456789abcdef predict,admin", "some fedcba9876543210 predict"], "keys")
        body = good(self.path) if content is None else content
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        client = TestClient(application(self.models, keys, hosts), raise_server_exceptions=False)
        answer = client.request(
            self.method,
            to or filled(self.path),
            content=raw,
            headers={"Content-Type": "application/json"} | KEY | named,
        )
        check(answer, self.method, self.path)
        assert answer.status_code == status, answer.text
        self.sent.add(status)


@pytest.mark.parametrize(("method", "path"), WITH_BODIES, ids=map(" ".join, WITH_BODIES))
def test_each_refusal_is_declared_and_sent(
    models: Catalogue, monkeypatch: pytest.MonkeyPatch, method: str, path: str
) -> None:
    """Every status that an operation declares is sent by what its description names, but for 503 of a proxy."""
    ask = Sender(models, method, path)
    invalid = 400 if path.startswith(("/v2", "/invocations", "/endpoints")) else 422
    ask(invalid, b"{")
    ask(invalid, Content_Encoding="gzip")
    ask(501, Transfer_Encoding="gzip, chunked")
    ask(400, hosts=("bertline.test",))
    ask(401, Authorization="Bearer none")
    ask(413, b" " * (bodies.MAX_BYTES + 1))
    if method == "PUT":
        ask(403, Authorization="Bearer fedcba9876543210")
        ask(422)
        return
    monkeypatch.setattr(bodies, "HELD_BYTES", 0)
    ask(429, b" " * (bodies.SMALL + 1))
    ask(200)
    ask(504, x_request_timeout_seconds="0.0000001")
    if "{name}" in path:
        ask(404, to=path.replace("{name}", "nobody").replace("{version}", "0"))
    for error, status in ((BusyError(1.5), 429), (ValueError("a text of the user"), 500)):

        async def fails(*_: Any, error: Exception = error, **__: Any) -> None:
            raise error

        monkeypatch.setattr(row_batcher.RowBatcher, "predict", fails)
        ask(status)
    if "415" in SPEC["paths"][path]["post"]["responses"]:
        ask(415, Content_Type="text/plain")
    ask(408, _slow(monkeypatch))
    declared = {int(status) for status in SPEC["paths"][path]["post"]["responses"]}
    assert declared - ask.sent <= {403, 404, 503}
    assert ask.sent <= declared


def _slow(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A body that takes longer than bodies may; the test's client sends it at once, so the time is none."""

    async def whole(*_: Any) -> bool:
        await asyncio.sleep(30)
        return True

    monkeypatch.setattr(bodies.LimitedBodies, "_whole", whole)
    monkeypatch.setattr(bodies.LimitedBodies.__init__, "__defaults__", (bodies.MAX_BYTES, 0.01, None))
    return b"{}"


def test_the_document_of_a_service_with_keys_says_where_they_are_needed(models: Catalogue) -> None:
    keys = Keys.parse(["some 0123456789abcdef"], "keys")
    spec, client = application(models, keys).openapi(), TestClient(application(models, keys))
    assert set(spec["components"]["securitySchemes"]) == {"bearer", "header"}
    assert "securitySchemes" not in SPEC["components"]
    needs = {path: bool(verbs["get"].get("security")) for path, verbs in spec["paths"].items() if "get" in verbs}
    assert set(needs.values()) == {True, False}
    for path, is_needed in needs.items():
        assert (client.get(filled(path)).status_code == 401) == is_needed, path
        assert ("401" in spec["paths"][path]["get"]["responses"]) == is_needed, path
    assert needs["/metrics"]


def test_the_document_needs_no_other_schema() -> None:
    named = set(KNOWN)
    used = {part.partition('"')[0] for part in json.dumps(SPEC).split("#/components/schemas/")[1:]}
    assert used <= named
    assert len(OPERATIONS) > 20
    assert len(WITH_BODIES) >= 9
