"""Add, replace, refresh and remove models while the service runs, with a key of the scope admin."""

import asyncio
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request

from pipelines.core.errors import InputError
from pipelines.serving import request_bodies, schemas
from pipelines.serving.answering import respond
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.model_sources import NAME, Source
from pipelines.serving.protocols import plain

JSON = plain.JSON
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: plain.PROBLEM[status] for status in (404, 408, 413, 422, 500, 503)
}
RESPONSES |= {
    401: {"model": schemas.Problem, "description": "The key is missing or unknown."},
    403: {"model": schemas.Problem, "description": "The key lacks the scope admin, or the service has no keys."},
}


class NewModel(BaseModel):
    """A registered model to serve."""

    model_config = ConfigDict(extra="forbid")

    source: str = Field(max_length=200, examples=["headlines@challenger"])  # NAME, NAME@ALIAS or NAME@NUMBER
    runtime: str = Field("", max_length=20)  # onnx or torch; by default that of the version's tag


BODY = {"requestBody": {"required": True, "content": {JSON: {"schema": NewModel.model_json_schema()}}}}


def routes(catalogue: Catalogue) -> APIRouter:
    """The routes that change the catalogue."""
    router = APIRouter()

    @router.put("/models/{name}", response_model=schemas.Model, responses=RESPONSES, openapi_extra=BODY)
    async def put(name: str, request: Request) -> Any:
        """Serve a registered model under this name; a model that has the name is replaced once the new one is open."""
        return await respond(_put(catalogue, name, request), plain.detail)

    @router.delete("/models/{name}", status_code=204, response_model=None, responses=RESPONSES)
    async def delete(name: str) -> Any:
        """Stop serving a model; requests that it has begun are answered."""
        return await respond(_delete(catalogue, name), plain.detail)

    @router.post("/models/{name}/refresh", response_model=schemas.Model, responses=RESPONSES)
    async def refresh(name: str) -> Any:
        """Look at the model's alias now; `refused` says why the version that has it gets no request."""
        return await respond(_refresh(catalogue, name), plain.detail)

    return router


async def _refresh(catalogue: Catalogue, name: str) -> schemas.Model:
    catalogue[name]  # an unknown name is reported
    await asyncio.to_thread(catalogue.follow, name)
    return plain.described(catalogue[name], catalogue)


async def _put(catalogue: Catalogue, name: str, request: Request) -> schemas.Model:
    if not NAME.fullmatch(name):
        raise InputError("a name has letters, digits, _, - and . only")
    try:
        body = NewModel.model_validate_json(await request.body())
    except ValidationError as error:
        raise InputError(request_bodies.sentence(error)) from None
    if "=" in body.source:
        raise InputError("source: a registered model is expected; folders are named when the service starts")
    await asyncio.to_thread(catalogue.add, name, Source.parse(body.source, body.runtime))
    return plain.described(catalogue[name], catalogue)


async def _delete(catalogue: Catalogue, name: str) -> Response:
    await asyncio.to_thread(catalogue.remove, name)
    return Response(status_code=204)
