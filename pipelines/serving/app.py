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
from pipelines.serving.keys import Keys, RequireKey
from pipelines.serving.request_metrics import Counted, Metrics

PROTOCOLS = "pipelines.serving.protocols"
REFERENCE = "#/components/schemas/{model}"


def application(catalogue: Catalogue, keys: Keys | None = None) -> FastAPI:
    """The application that answers with the models of `catalogue`.

    Args:
        keys: the API keys that requests need; none by default.
    """
    metrics = Metrics(catalogue)
    # FastAPI's own pages load scripts from another host
    api = FastAPI(title="bertline", description=ABOUT, version="1", docs_url=None, redoc_url=None)
    # the middleware that is added last runs first
    api.add_middleware(bodies.LimitedBodies)
    api.add_middleware(RequireKey, keys=keys or Keys())
    api.add_middleware(Counted, metrics=metrics)
    api.include_router(metrics.routes())
    for name in plugins.names(PROTOCOLS):
        api.include_router(plugins.load(PROTOCOLS, name).routes(catalogue))

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
    for unused in ("HTTPValidationError", "ValidationError"):
        spec["components"]["schemas"].pop(unused, None)
    api.openapi_schema = spec
    return spec
