"""API keys: their file, who is refused, and what is counted for whom."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.local import http_service
from pipelines.core.errors import InputError, UsageError
from pipelines.serving.keys import OPEN, Keys
from tests.support import raw_http, served, tiny

SHOP, BOSS = "0123456789abcdef", "fedcba9876543210"
LINES = ["# who may ask", "", f"shop {SHOP}", f"boss {BOSS} predict,admin"]
BODY = '{"rows": [{"text": "犬"}]}'.encode()


def test_a_file_of_keys_is_read(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("\n".join(LINES[2:]), encoding="utf-8-sig")  # as Windows' editor writes it
    path.chmod(0o644)
    with pytest.raises(InputError, match=r"keys: other users may read the keys; run `chmod 600"):
        Keys.read(path)
    path.chmod(0o600)
    keys = Keys.read(path)
    assert [(key.name, sorted(key.scopes)) for key in keys.keys] == [
        ("shop", ["predict"]),
        ("boss", ["admin", "predict"]),
    ]
    entry = keys.find(BOSS.encode())
    assert entry
    assert entry.name == "boss"
    assert keys.find(b"") is keys.find(SHOP.encode()[:-1]) is None
    with pytest.raises(InputError, match="no: the keys cannot be read"):
        Keys.read(tmp_path / "no")


def test_every_wrong_line_is_named_without_its_key() -> None:
    lines = ["shop secretkey1", "a secretkey2345678 predict admin", f"b {SHOP} root", f"c {SHOP}", f"c {BOSS}"]
    lines.append(f"d {SHOP} admin")
    with pytest.raises(InputError) as error:
        Keys.parse(lines, "keys")
    assert str(error.value).splitlines() == [
        "keys: line 1: the key of shop has 10 characters; 16 or more are expected",
        "keys: line 2: 4 words; NAME KEY or NAME KEY SCOPES is expected",
        "keys: line 3: no scope 'root'; there are: admin, predict",
        "keys: line 5: the name c occurs twice",
        "keys: line 6: c and d have the same key",
    ]
    assert SHOP not in str(error.value)
    assert "secret" not in str(error.value)
    with pytest.raises(InputError, match="keys: no keys; write a line `NAME KEY` for each"):
        Keys.parse(["", "# none"], "keys")


def test_other_machines_need_a_key_or_an_open_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(http_service.VARIABLE, raising=False)
    for host in http_service.LOOPBACK:
        assert http_service.keys_for(host, None, False).keys == ()
    with pytest.raises(UsageError, match=r"--host 0\.0\.0\.0: other machines could ask without a key; name a file"):
        http_service.keys_for("0.0.0.0", None, False)
    assert http_service.keys_for("0.0.0.0", None, True).keys == ()
    monkeypatch.setenv(http_service.VARIABLE, f"shop {SHOP};boss {BOSS} admin")
    assert [key.name for key in http_service.keys_for("0.0.0.0", None, False).keys] == ["shop", "boss"]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    models = served.catalogue({"tiny": tiny.classifier(tmp_path_factory.mktemp("keys") / "model")})
    with served.serving(models, Keys.parse(LINES, "keys")) as address:
        yield address


BOTH = {"Authorization": "Bearer ", "X-API-Key": SHOP}


@pytest.mark.parametrize(
    "header", [{"Authorization": f"Bearer {SHOP}"}, {"X-API-Key": SHOP}, {"authorization": f"bearer  {SHOP}"}, BOTH]
)
def test_a_key_opens_every_protocol(address: str, header: dict[str, str]) -> None:
    assert raw_http.post(address, "/predict", BODY, header).status == 200
    assert raw_http.get(address, "/models", header).status == 200
    assert raw_http.get(address, "/v2/models/tiny", header).status == 200


@pytest.mark.parametrize("path", OPEN)
def test_pages_and_health_need_no_key(address: str, path: str) -> None:
    assert raw_http.get(address, path).status == 200


WRONG: list[dict[str, str]] = [
    {},
    {"Authorization": "Bearer "},
    {"Authorization": f"Basic {SHOP}"},
    {"X-API-Key": SHOP + "0"},
]


@pytest.mark.parametrize("header", WRONG)
def test_without_a_key_nothing_of_a_model_is_answered(address: str, header: dict[str, str]) -> None:
    for path in (
        "/models",
        "/model",
        "/metrics",
        "/v2/models/tiny",
        "/v1/models",
        "/nothing",
        "//predict",
        "/health/..",
    ):
        refused = raw_http.get(address, path, header)
        assert refused.status == 401, path
        assert "tiny" not in refused.body.decode()
        assert refused.headers["www-authenticate"] == "Bearer"
    for path in ("/predict", "/invocations", "/hf/tiny", "/v1/embeddings", "/v2/models/tiny/infer"):
        refused = raw_http.post(address, path, BODY, header)
        assert refused.status == 401, path
        assert "no valid API key; send it as `Authorization: Bearer KEY`" in refused.body.decode()
    assert raw_http.get(address, "/health", header).status == 200


def test_requests_are_counted_by_key_and_status(address: str) -> None:
    key = {"X-API-Key": BOSS}
    before = counted(raw_http.get(address, "/metrics", key).body.decode())
    assert raw_http.post(address, "/predict/tiny", BODY, key).status == 200
    assert raw_http.post(address, "/predict/tiny", b"{", key).status == 422
    assert raw_http.post(address, "/predict/tiny", BODY).status == 401
    after = counted(raw_http.get(address, "/metrics", key).body.decode())
    for name, more in (
        ('bertline_requests_total{key="boss",route="/predict/{name}",status="200"}', 1),
        ('bertline_requests_total{key="boss",route="/predict/{name}",status="422"}', 1),
        ('bertline_requests_total{key="",route="",status="401"}', 1),
        ('bertline_rows_total{model="tiny",version="1"}', 1),
        ('bertline_batches_total{model="tiny",version="1"}', 1),
    ):
        assert after[name] - before.get(name, 0) == more, name
    assert after['bertline_queue_seconds{model="tiny",version="1"}'] == 0


def counted(text: str) -> dict[str, float]:
    """The numbers of Prometheus's text format."""
    return {name: float(value) for name, value in re.findall(r"^([a-z_]+\{.*\}) (\S+)$", text, re.MULTILINE)}


def test_only_a_key_of_the_scope_admin_changes_models(address: str) -> None:
    new = b'{"source": "tiny@champion"}'
    for headers, status, why in (
        ({}, 401, "no valid API key"),
        ({"X-API-Key": SHOP}, 403, "the key shop lacks the scope admin"),
        ({"X-API-Key": BOSS}, 422, "no registered model"),
    ):
        for method, path in (("PUT", "/models/other"), ("DELETE", "/models/nothing")):
            refused = raw_http.request(method, address, path, new, headers)
            assert refused.status == (404 if status == 422 and method == "DELETE" else status), (method, headers)
            assert status == 422 or why in refused.json()["detail"]
    for path in ("/models/tiny/refresh", "/models/tiny/%72efresh", "/models/tiny/refresh/"):
        refused = raw_http.post(address, path, b"", {"X-API-Key": SHOP})
        assert (refused.status, refused.json()["detail"]) == (403, "the key shop lacks the scope admin"), path
    assert raw_http.post(address, "/models/tiny/refresh", b"", {"X-API-Key": BOSS}).status == 200
    for name, body in (("a b", new), ("other", b"{}"), ("other", b'{"source": "t=/etc"}'), ("other", b'{"x": 1}')):
        assert (
            raw_http.request("PUT", address, f"/models/{name.replace(' ', '%20')}", body, {"X-API-Key": BOSS}).status
            == 422
        )
    assert [model["name"] for model in raw_http.get(address, "/models", {"X-API-Key": BOSS}).json()] == ["tiny"]


def test_without_keys_nobody_changes_models_and_other_names_of_the_host_are_refused(tmp_path: Path) -> None:
    models = served.catalogue({"tiny": tiny.classifier(tmp_path / "model")})
    with served.serving(models, hosts=http_service.LOOPBACK) as address:
        refused = raw_http.request("DELETE", address, "/models/tiny", b"", {})
        assert (refused.status, refused.json()["detail"][:32]) == (403, "models are changed with a key of")
        for host in ("127.0.0.1", "localhost:8000", "LOCALHOST", "[::1]:8000"):
            assert raw_http.post(address, "/predict", BODY, {"Host": host}).status == 200, host
        for host in ("evil.example", "127.0.0.1.evil.example", "", "[::2]", "evil.example:8000"):
            answer = raw_http.post(address, "/predict", BODY, {"Host": host})
            assert answer.status == 400, host
            assert "label" not in answer.body.decode()
