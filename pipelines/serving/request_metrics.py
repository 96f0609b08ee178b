"""Metrics of the service in Prometheus's format, at `GET /metrics`."""

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from pipelines.serving.catalogue import Catalogue
from pipelines.serving.row_batcher import RowBatcher

GONE = 499  # the status of a request that got no answer, as its client is gone
CONTENT = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Counts of answered requests and of the work in the queues; `GET /metrics` reads its registry."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue, self.registry = catalogue, CollectorRegistry()
        self.responses: Counter[tuple[str, int, str]] = Counter()  # (route, status, name of the key)
        self.seconds = Histogram(
            "bertline_request_seconds", "Seconds from a request's first byte to its answer.", ["route"],
            buckets=SECONDS, registry=self.registry,
        )  # fmt: skip
        self._of_route: dict[str, Histogram] = {}  # the parts of `seconds`, as to look one up costs more than to count
        self.registry.register(self)

    def observe(self, route: str, seconds: float) -> None:
        """Note the seconds of a request."""
        if not (histogram := self._of_route.get(route)):
            histogram = self._of_route[route] = self.seconds.labels(route)
        histogram.observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """The numbers that the queues and the middleware count."""
        responses = CounterMetricFamily(
            "bertline_requests", "Answered requests; 429 are refused, 504 too late.", labels=["route", "status", "key"]
        )
        for (route, status, key), count in sorted(self.responses.items()):
            responses.add_metric([route, str(status), key], count)
        yield responses
        yield from self._work()
        yield from self._swaps()

    def _work(self) -> Iterator[Metric]:
        """The numbers of the queue of each version that answers, is a canary or is a shadow."""
        labels = ["model", "version"]
        waiting = GaugeMetricFamily("bertline_queue_seconds", "Seconds that the waiting rows need.", labels=labels)
        rate = GaugeMetricFamily("bertline_characters_per_second", "What all workers can answer.", labels=labels)
        rows = CounterMetricFamily("bertline_rows", "Predicted rows.", labels=labels)
        batches = CounterMetricFamily("bertline_batches", "Runs of the model.", labels=labels)
        busy = CounterMetricFamily("bertline_busy_seconds", "Seconds of all workers in a batch.", labels=labels)
        for (name, version), batchers in self._batchers().items():
            names = [name, str(version)]
            waiting.add_metric(names, sum(batcher.queue.waiting / batcher.queue.rate for batcher in batchers))
            rate.add_metric(names, max(batcher.queue.rate for batcher in batchers))
            rows.add_metric(names, sum(batcher.rows for batcher in batchers))
            batches.add_metric(names, sum(batcher.batches for batcher in batchers))
            busy.add_metric(names, sum(batcher.seconds for batcher in batchers))
        yield from (waiting, rate, rows, batches, busy)

    def _batchers(self) -> dict[tuple[str, int], list[RowBatcher]]:
        """The queues by model and version; a version that is canary and shadow has two."""
        queues: dict[tuple[str, int], list[RowBatcher]] = {}
        for model in self.catalogue:
            for opened in (model, *(side.model for side in (model.canary, model.shadow) if side)):
                queues.setdefault((model.name, opened.version.version), []).append(opened.batcher)
        return queues

    def _swaps(self) -> Iterator[Metric]:
        """The counts of versions that replaced others, and of those that stand beside them."""
        swaps = CounterMetricFamily(
            "bertline_swaps", "Versions that answer now, were refused, went back, or ended as canaries.",
            labels=["model", "outcome"],
        )  # fmt: skip
        for (name, outcome), count in sorted(self.catalogue.swaps.items()):
            swaps.add_metric([name, outcome], count)
        labels = ["model", "version", "result"]
        canary = CounterMetricFamily("bertline_canary_requests", "Requests for canaries.", labels=labels)
        shadow = CounterMetricFamily("bertline_shadow_rows", "Rows that shadows read.", labels=labels)
        for model in self.catalogue:
            if side := model.canary:
                names = [model.name, str(side.model.version.version)]
                canary.add_metric([*names, "answered"], side.requests - side.failures)
                canary.add_metric([*names, "failed"], side.failures)
            if reader := model.shadow:
                for result, count in sorted(reader.rows.items()):
                    shadow.add_metric([model.name, str(reader.model.version.version), result], count)
        yield from (swaps, canary, shadow)
        if store := self.catalogue.store:
            stored = CounterMetricFamily("bertline_stored_rows", "Rows for the store of requests.", labels=["result"])
            for result in ("stored", "lost"):
                stored.add_metric([result], store.rows[result])
            yield stored

    def routes(self) -> APIRouter:
        router = APIRouter()

        @router.get("/metrics", response_class=PlainTextResponse)
        async def metrics() -> Response:
            """Requests, rows, batches, seconds and the queue, for Prometheus."""
            return Response(generate_latest(self.registry), media_type=CONTENT)

        return router


class Counted:
    """An ASGI middleware that counts requests and their seconds, by the route that answered."""

    def __init__(self, app: Any, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), GONE

        async def noted(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, noted)
        except Exception:  # of any type: the server answers 500, unless an answer has begun
            status = 500 if status == GONE else status
            raise
        finally:
            route = getattr(scope.get("route"), "path", "")  # empty for a path that no route has
            self.metrics.responses[route, status, scope.get("state", {}).get("key", "")] += 1
            self.metrics.observe(route, time.perf_counter() - start)
