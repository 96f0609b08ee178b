"""A span of OpenTelemetry for each request. Where no exporter is configured, nothing is imported."""

from importlib.metadata import entry_points
from typing import Any

from pipelines.core.errors import UsageError, choices

EXPORTERS = "opentelemetry_traces_exporter"  # OpenTelemetry's entry points
CONTEXT = (b"traceparent", b"tracestate")  # headers of W3C's Trace Context


class Spans:
    """Begins a span for each request, as a child of the one that the request names, and ends it with its numbers."""

    def __init__(self, provider: Any) -> None:
        """`provider` is a TracerProvider of opentelemetry.sdk.trace, with a processor that exports."""
        from opentelemetry.trace import SpanKind, Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider, self._tracer = provider, provider.get_tracer("bertline")
        self._parent, self._kind = TraceContextTextMapPropagator(), SpanKind.SERVER
        self._failed = Status(StatusCode.ERROR)

    def begin(self, scope: Any) -> Any:
        """The span of a request (an ASGI scope)."""
        sent = {name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in CONTEXT}
        return self._tracer.start_span(scope["method"], self._parent.extract(sent), self._kind)

    def end(self, span: Any, entry: dict[str, Any]) -> None:
        """End a span with the entry of its request in the log (`request_log.described`). It holds no text of it."""
        span.update_name(f"{entry['method']} {entry['path']}".strip())
        span.set_attribute("http.request.method", entry["method"])
        span.set_attribute("http.route", entry["path"])
        span.set_attribute("http.response.status_code", entry["status"])
        for name in ("request_id", "model", "version", "rows", "tokens", "queue_ms", "run_ms", "cause"):
            if entry[name] not in (None, ""):
                span.set_attribute(f"bertline.{name}", entry[name])
        if entry["status"] >= 500:
            span.set_status(self._failed)
        span.end()

    def close(self) -> None:
        """Export what has ended."""
        self._provider.shutdown()


def require_exporter(name: str) -> None:
    """Raise UsageError if no exporter with this name is installed."""
    installed = entry_points(group=EXPORTERS).names
    if name not in installed:
        raise UsageError(
            f"OTEL_TRACES_EXPORTER: {choices('exporter', name, sorted(installed))}; "
            "`otlp` is in the package opentelemetry-exporter-otlp"
        )


def exported(name: str) -> Spans | None:
    """Spans for the exporter with this name, by the OTEL_ variables that it and OpenTelemetry read; none for ""."""
    if not name:
        return None
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    require_exporter(name)
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: "bertline"}))
    provider.add_span_processor(BatchSpanProcessor(entry_points(group=EXPORTERS)[name].load()()))
    return Spans(provider)
