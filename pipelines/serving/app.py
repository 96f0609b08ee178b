"""The service as one ASGI application: every protocol over the models of a catalogue.

uvicorn runs it on one machine (flows.local.http_service), Ray Serve in a cluster (pipelines.serving.ray_service).
"""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from pipelines.core import plugins
from pipelines.serving import bodies, docs_page, schemas
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.hosts import RequireHost
from pipelines.serving.keys import Keys, RequireKey
from pipelines.serving.refusals import Refusals
from pipelines.serving.request_log import OFF, Logged
from pipelines.serving.request_metrics import Counted, Metrics

PROTOCOLS = "pipelines.serving.protocols"
UNUSED = "HTTPValidationError"  # FastAPI's own, which no route answers with, as they parse their bodies themselves
REFERENCE = "#/components/schemas/{model}"


def application(
    catalogue: Catalogue, keys: Keys | None = None, hosts: tuple[str, ...] = (), log_format: str = OFF
) -> FastAPI:
    """The application that answers with the models of `catalogue`.

    Args:
        keys: the API keys that requests need; none by default.
        hosts: the only names in a Host header that are answered; by default all.
        log_format: of the lines of requests on standard error (`request_log.FORMATS`).
    """
    metrics = Metrics(catalogue)
    # FastAPI's own pages load scripts from another host
    api = FastAPI(title="bertline", description=ABOUT, version="1", docs_url=None, redoc_url=None)
    protocols = [plugins.load(PROTOCOLS, name) for name in plugins.names(PROTOCOLS)]
    shapes = {prefix: protocol.refusal for protocol in protocols for prefix in getattr(protocol, "PREFIXES", ())}
    refusals = Refusals(shapes)
    # the middleware that is added last runs first
    api.add_middleware(bodies.LimitedBodies, refusals=refusals)
    api.add_middleware(RequireKey, keys=keys or Keys(), refusals=refusals)
    api.add_middleware(RequireHost, names=hosts, refusals=refusals)
    api.add_middleware(Counted, metrics=metrics)
    api.add_middleware(Logged, form=log_format)
    api.include_router(metrics.routes())
    # routes of their own are matched faster than included routers, and the first ones fastest
    routes = [route for protocol in protocols for route in protocol.routes(catalogue).routes]
    api.router.routes.extend(sorted(routes, key=lambda route: route.methods != {"POST"}))

    @api.get("/docs", include_in_schema=False)
    async def docs() -> Any:
        return docs_page.response()

    api.openapi = lambda: _described(api)  # type: ignore[method-assign]
    return api


ABOUT = "Predictions for texts, from the registered models that this service follows."


def _described(api: FastAPI) -> dict[str, Any]:
    """The OpenAPI description, with the schemas of bodies that the routes parse themselves."""
    if api.openapi_schema:
        return api.openapi_schema
    spec = get_openapi(title=api.title, version=api.version, description=api.description, routes=api.routes)
    _, schema = models_json_schema([(schemas.Request, "validation")], ref_template=REFERENCE)
    spec["components"]["schemas"] |= schema["$defs"]
    for unused in (UNUSED, "ValidationError"):
        spec["components"]["schemas"].pop(unused, None)
    for operation in (operation for verbs in spec["paths"].values() for operation in verbs.values()):
        if UNUSED in str(operation["responses"].get("422")):
            del operation["responses"]["422"]
    api.openapi_schema = spec
    return spec
