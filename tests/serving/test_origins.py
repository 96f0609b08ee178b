"""Pages of other origins: which may call the service from a browser, and what they may send and read."""

import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pipelines.core.errors import UsageError
from pipelines.inference.predictor import Predictor
from pipelines.serving import origins
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.keys import Keys
from pipelines.tracking.registry import Version
from tests.support import commands, raw_http, served, tiny
from tests.support.browser import Tab

PAGE, OTHER = "https://www.example.com", "https://evil.example"
KEY = "0123456789abcdef"
KEYS = Keys.parse([f"shop {KEY}"], "keys")
BODY = '{"rows": [{"text": "犬"}]}'.encode()
ALLOWED = "access-control-allow-origin"
ASK = """fetch("{address}/predict/tiny", {{
    method: "POST",
    headers: {{"Content-Type": "application/json", "Authorization": "Bearer {key}", "X-Stainless-Lang": "js"}},
    body: JSON.stringify({{rows: [{{text: "犬"}}]}}),
}}).then(async (answer) => {{
    const header = (name) => answer.headers.get(name);
    const body = await answer.json();
    return {{status: answer.status, id: header("x-request-id"), wait: header("retry-after-ms"), body}};
}}).catch((error) => ({{error: error.name}}))"""


@pytest.fixture(scope="module")
def predictor(tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    return Predictor.load(tiny.classifier(tmp_path_factory.mktemp("origins") / "model"), threads=1)


def catalogue(predictor: Predictor) -> Catalogue:
    return served.of_predictors({Version("tiny", 1, {}): predictor})


@pytest.fixture(scope="module")
def models(predictor: Predictor) -> Catalogue:
    return catalogue(predictor)


@pytest.fixture(scope="module")
def address(models: Catalogue) -> Iterator[str]:
    with served.serving(models, KEYS, origins=(PAGE, "http://127.0.0.1:3000")) as address:
        yield address


def preflight(address: str, origin: str, method: str = "POST") -> raw_http.Answer:
    wanted = {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": "authorization,x-api-key"}
    return raw_http.request("OPTIONS", address, "/predict/tiny", None, {"Origin": origin} | wanted)


def test_a_preflight_needs_no_key_and_says_what_may_be_sent(address: str) -> None:
    answer = preflight(address, PAGE)
    assert (answer.status, answer.headers[ALLOWED]) == (200, PAGE)
    assert answer.headers["access-control-allow-methods"].split(", ") == list(origins.METHODS)
    assert answer.headers["access-control-allow-headers"] == "authorization,x-api-key"
    assert int(answer.headers["access-control-max-age"]) == origins.SECONDS
    assert "Origin" in answer.headers["vary"].split(", ")
    assert "access-control-allow-credentials" not in answer.headers
    for origin, method in ((OTHER, "POST"), ("null", "POST"), (PAGE, "TRACE")):
        refused = preflight(address, origin, method)
        assert refused.status == 400
        assert (ALLOWED in refused.headers) is (origin == PAGE)


def test_answers_and_refusals_may_be_read_by_those_pages_alone(address: str, models: Catalogue) -> None:
    key = {"X-API-Key": KEY}
    for path, headers, body, status in (
        ("/predict/tiny", key, BODY, 200),
        ("/predict/tiny", {}, BODY, 401),
        ("/predict/nobody", key, BODY, 404),
        ("/predict/tiny", key, b"{", 422),
        ("/hf/tiny", key, b"{}", 422),
        ("/predict/tiny", key, BODY, 429),
    ):
        with served.filled(models["tiny"], "shop") if status == 429 else nullcontext():
            answer, other = (
                raw_http.post(address, path, body, headers | {"Origin": origin}) for origin in (PAGE, OTHER)
            )
        assert (answer.status, answer.headers[ALLOWED], answer.headers["vary"]) == (status, PAGE, "Origin"), path
        exposed = answer.headers["access-control-expose-headers"].lower().split(", ")
        assert {"x-request-id", "retry-after", "retry-after-ms"} <= set(exposed)
        assert ALLOWED not in other.headers
    plain = raw_http.post(address, "/predict/tiny", BODY, key)
    assert ALLOWED not in plain.headers
    assert plain.headers["vary"] == "Origin", "a cache must not give this answer to a page"


def test_by_default_no_page_may_and_a_star_lets_all(predictor: Predictor) -> None:
    with served.serving(catalogue(predictor)) as address:
        refused = preflight(address, PAGE)
        assert refused.status == 405
        assert ALLOWED not in refused.headers
        assert "vary" not in raw_http.post(address, "/predict", BODY, {"Origin": PAGE}).headers
    with served.serving(catalogue(predictor), KEYS, origins=("*",)) as address:
        assert preflight(address, OTHER).headers[ALLOWED] == "*"
        assert raw_http.post(address, "/predict", BODY, {"Origin": OTHER}).headers[ALLOWED] == "*"


def test_an_origin_is_a_scheme_a_host_and_a_port() -> None:
    right = ("https://www.example.com", "http://localhost:3000", "http://[::1]:80", "*", "HTTPS://WWW.example.com")
    assert origins.checked(right, "here") == right[:4]
    for wrong in ("www.example.com", "https://a.example/", "https://a.example/page", "null", "https://*.example", ""):
        with pytest.raises(UsageError, match=r"here: '.*' is no origin; write the scheme, the host and the port alone"):
            origins.checked([wrong], "here")
    ended = commands.bertline("serve tiny=nowhere --allow-origin www.example.com").require(2)
    assert "--allow-origin: 'www.example.com' is no origin" in ended.err


class EmptyPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@pytest.fixture
def page() -> Iterator[str]:
    """The address of another server with a page."""
    with ThreadingHTTPServer(("127.0.0.1", 0), EmptyPage) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.slow
def test_a_browser_lets_the_page_ask_and_read(predictor: Predictor, page: str, open_tab: Callable[[], Tab]) -> None:
    tab, models = open_tab(), catalogue(predictor)
    tab.open(page)
    with served.serving(models, KEYS, origins=(page,)) as address:
        answer = tab.value(ASK.format(address=address, key=KEY))
        assert answer["status"] == 200
        assert answer["id"]
        assert answer["body"]["predictions"][0]["label"]
        assert tab.value(ASK.format(address=address, key="wrong"))["status"] == 401
        with served.filled(models["tiny"], "shop"):
            busy = tab.value(ASK.format(address=address, key=KEY))
        assert busy["status"] == 429
        assert int(busy["wait"]) > 1000
    with served.serving(catalogue(predictor), KEYS, origins=(PAGE,)) as address:
        assert tab.value(ASK.format(address=address, key=KEY)) == {"error": "TypeError"}
