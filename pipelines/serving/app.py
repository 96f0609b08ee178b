"""The service as one ASGI application: every protocol over the models of a catalogue.

uvicorn runs it on one machine (flows.local.http_service), Ray Serve in a cluster (pipelines.serving.ray_service).
"""

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request

from pipelines.core import plugins
from pipelines.serving import bodies, docs_page, openapi, origins
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.direct_routes import DirectRoutes, RouteTable
from pipelines.serving.early_refusals import RefuseEarly
from pipelines.serving.head_requests import AnswerHead
from pipelines.serving.hosts import RequireHost
from pipelines.serving.keys import Keys, RequireKey
from pipelines.serving.refusals import Refusals
from pipelines.serving.request_log import OFF, Logged
from pipelines.serving.request_metrics import Counted, Metrics
from pipelines.serving.request_store import Stored
from pipelines.serving.spans import Spans

PROTOCOLS = "pipelines.serving.protocols"


class _Service(FastAPI):
    """FastAPI behind the layers that every request passes; those for predictions do not reach its router."""

    outer: Any  # the first layer, an ASGI application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await (self.outer if scope["type"] == "http" else self.inner)(scope, receive, send)

    async def inner(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer as FastAPI does."""
        await super().__call__(scope, receive, send)


def application(
    catalogue: Catalogue,
    keys: Keys | None = None,
    hosts: tuple[str, ...] = (),
    log_format: str = OFF,
    spans: Spans | None = None,
    allowed_origins: tuple[str, ...] = (),
) -> FastAPI:
    """The application that answers with the models of `catalogue`.

    Args:
        keys: the API keys that requests need; none by default.
        hosts: the only names in a Host header that are answered; by default all.
        log_format: of the lines of requests on standard error (`request_log.FORMATS`).
        spans: OpenTelemetry's, of requests.
        allowed_origins: of pages that browsers let call the service (`origins.checked`).
    """
    metrics = Metrics(catalogue)
    # FastAPI's own pages load scripts from another host
    api = _Service(title="bertline", description=ABOUT, version="1", docs_url=None, redoc_url=None)
    protocols = [plugins.load(PROTOCOLS, name) for name in plugins.names(PROTOCOLS)]
    shapes = {prefix: protocol.refusal for protocol in protocols for prefix in getattr(protocol, "PREFIXES", ())}
    refusals = Refusals(shapes)
    api.include_router(metrics.routes())
    # a redirect to a path without a slash would name http:// behind a proxy that ends TLS
    api.router.redirect_slashes = False
    routes = [route for protocol in protocols for route in protocol.routes(catalogue).routes]
    api.router.routes.extend(routes)  # they are matched faster than included routers
    direct = bodies.LimitedBodies(DirectRoutes(api.inner), refusals=refusals)
    early = RefuseEarly(direct, RouteTable(routes), catalogue, refusals)
    allowed = RequireHost(RequireKey(Stored(early, catalogue.store), keys or Keys(), refusals), hosts, refusals)
    shared = origins.allowing(allowed, allowed_origins)  # refusals of the layers below are for those pages too
    api.outer = Logged(Counted(AnswerHead(shared), metrics), log_format, spans=spans)
    _describe(api, protocols, refusals, with_keys=bool(keys and keys.keys))
    return api


def _describe(api: FastAPI, protocols: list[Any], refusals: Refusals, with_keys: bool) -> None:
    """Add the page of the paths, their description, and the shapes of the router's errors."""
    api.get("/docs", include_in_schema=False)(_docs)

    @api.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Any:
        """The response of an error of the router, or of a route, in the protocol of its path."""
        why = ROUTER.get(error.status_code, error.detail) if error.detail in PHRASES else error.detail
        return refusals.response(request.scope, error.status_code, why, dict(error.headers or {}))

    errors = {prefix: protocol.ERROR for protocol in protocols for prefix in getattr(protocol, "PREFIXES", ())}
    api.openapi = lambda: openapi.described(api, errors, with_keys)  # type: ignore[method-assign]


async def _docs() -> Any:
    return docs_page.response()


PHRASES = {status.phrase for status in HTTPStatus}  # the sentences of Starlette's router
ROUTER = {
    404: "no such path; /docs lists those of the service",
    405: "the path does not take this method; /docs lists what it takes",
}
ABOUT = "Predictions for texts, from the registered models that this service follows."
