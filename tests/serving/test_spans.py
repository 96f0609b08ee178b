"""Spans of requests: children of the caller's, with the numbers of the log, and none where no exporter is named."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from flows.local import http_service
from pipelines.core.errors import UsageError
from pipelines.serving.app import application
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.spans import Spans
from tests.support import compressed, served
from tests.support.places import ROOT

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SECRET = "秘密の文 secret"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalogue]:
    opened = served.catalogue({"single": compressed.teacher("bert", "single", tmp_path_factory.mktemp("a") / "single")})
    yield opened
    opened.close()


@pytest.fixture
def exported() -> Iterator[tuple[Spans, InMemorySpanExporter]]:
    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    spans = Spans(provider)
    yield spans, memory
    spans.close()


def test_a_request_has_a_span_below_that_of_its_caller(
    exported: tuple[Spans, InMemorySpanExporter], models: Catalogue
) -> None:
    spans, memory = exported
    client = TestClient(application(models, log_format="off", spans=spans))
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    assert client.post("/predict/single", json={"rows": [{"text": SECRET}] * 2}, headers=headers).status_code == 200
    assert client.post("/predict/single", content=b"{").status_code == 422
    good, wrong = memory.get_finished_spans()
    assert (good.name, format(good.context.trace_id, "032x")) == ("POST /predict/{name}", TRACE)
    assert good.parent
    assert format(good.parent.span_id, "016x") == PARENT
    numbers = dict(good.attributes or {})
    names = ("http.response.status_code", "bertline.model", "bertline.version", "bertline.rows")
    assert [numbers[name] for name in names] == [200, "single", 1, 2]
    assert min(numbers["bertline.tokens"], numbers["bertline.run_ms"]) > 0  # type: ignore[type-var]
    assert SECRET not in good.to_json()
    assert wrong.parent is None
    assert (wrong.attributes or {})["bertline.cause"] == "invalid request"
    assert wrong.status.status_code != StatusCode.ERROR, "the client erred"


def test_variables_of_opentelemetry_switch_them_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*http_service.OTLP_VARIABLES, "OTEL_TRACES_EXPORTER", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    assert http_service.exporter() == ""
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    assert http_service.exporter() == "console"
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert http_service.exporter() == ""
    monkeypatch.delenv("OTEL_SDK_DISABLED")
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "jaeger")
    with pytest.raises(UsageError, match="OTEL_TRACES_EXPORTER: no exporter 'jaeger'"):
        http_service.exporter()


CONSOLE = """
import sys
from pipelines.serving import spans
assert spans.exported("") is None
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
traced = spans.exported("console")
names = ("request_id", "model", "version", "rows", "tokens", "queue_ms", "run_ms", "cause")
entry = dict.fromkeys(names, "") | {"method": "GET", "path": "/health", "status": 500}
traced.end(traced.begin({"method": "GET", "headers": []}), entry)
traced.close()
"""


def test_without_an_exporter_nothing_is_imported_and_the_console_gets_a_span() -> None:
    done = subprocess.run([sys.executable, "-c", CONSOLE], check=True, cwd=ROOT, capture_output=True, text=True)
    span = json.loads(done.stdout)
    assert (span["name"], span["kind"], span["status"]["status_code"]) == ("GET /health", "SpanKind.SERVER", "ERROR")
