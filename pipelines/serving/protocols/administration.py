"""Add, replace, refresh and remove models, their canaries and shadows, with a key of the scope admin."""

import asyncio
import contextvars
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeVar

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request

from pipelines.core.errors import InputError
from pipelines.serving import request_bodies, rollouts, schemas
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

    # NAME, NAME@ALIAS or NAME@NUMBER
    source: str = Field(min_length=1, max_length=200, examples=["headlines@challenger"])
    runtime: Literal["", "onnx", "torch"] = ""  # by default that of the version's tag


New = TypeVar("New", bound=NewModel)


class NewShadow(NewModel):
    """A version that reads a share of a model's requests."""

    share: float = Field(rollouts.SHADOW_SHARE, gt=0, le=1, strict=True)


class NewCanary(NewModel):
    """A version that answers a share of a model's requests."""

    share: float = Field(rollouts.CANARY_SHARE, gt=0, le=1, strict=True)
    # `key`: an API key always meets the canary or never does, and requests without a key never do
    by: Literal["random", "key"] = "random"


def _body(schema: type[NewModel]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema.model_json_schema()}}}}


BODY = _body(NewModel)
ANSWERS: dict[str, Any] = {"response_model": schemas.Model, "responses": RESPONSES}


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

    @router.put("/models/{name}/canary", openapi_extra=_body(NewCanary), **ANSWERS)
    async def put_canary(name: str, request: Request) -> Any:
        """Let a version answer a share of the requests; it ends by itself if it fails or is slow."""
        return await respond(_put_canary(catalogue, name, request), plain.detail)

    @router.put("/models/{name}/shadow", openapi_extra=_body(NewShadow), **ANSWERS)
    async def put_shadow(name: str, request: Request) -> Any:
        """Let a version read a share of the requests; its answers are compared with those that are sent."""
        return await respond(_put_shadow(catalogue, name, request), plain.detail)

    @router.delete("/models/{name}/canary", status_code=204, response_model=None, responses=RESPONSES)
    async def delete_canary(name: str) -> Any:
        """Let the model answer all of its requests again."""
        return await respond(_end(catalogue, name, "canary"), plain.detail)

    @router.delete("/models/{name}/shadow", status_code=204, response_model=None, responses=RESPONSES)
    async def delete_shadow(name: str) -> Any:
        """Let no version read the requests any longer."""
        return await respond(_end(catalogue, name, "shadow"), plain.detail)

    @router.post("/models/{name}/refresh", response_model=schemas.Model, responses=RESPONSES)
    async def refresh(name: str) -> Any:
        """Look at the model's alias now; `refused` says why the version that has it gets no request."""
        return await respond(_refresh(catalogue, name), plain.detail)

    return router


async def _changed(catalogue: Catalogue, work: Callable[..., None], *arguments: Any) -> None:
    """Change the catalogue in its turn."""
    here = contextvars.copy_context()  # the request, for the log
    await asyncio.get_running_loop().run_in_executor(catalogue.changes, partial(here.run, work, *arguments))


async def _refresh(catalogue: Catalogue, name: str) -> schemas.Model:
    catalogue[name]  # an unknown name is reported
    await _changed(catalogue, catalogue.follow, name)
    return plain.described(catalogue[name], catalogue)


async def _put(catalogue: Catalogue, name: str, request: Request) -> schemas.Model:
    if not NAME.fullmatch(name) and name not in {model.name for model in catalogue}:
        raise InputError("a name has letters, digits, _, - and . only")
    body = await _read(NewModel, request)
    await _changed(catalogue, catalogue.add, name, Source.parse(body.source, body.runtime))
    return plain.described(catalogue[name], catalogue)


async def _put_canary(catalogue: Catalogue, name: str, request: Request) -> schemas.Model:
    catalogue[name]  # an unknown name is reported before anything in the body
    body = await _read(NewCanary, request)
    source = Source.parse(body.source, body.runtime)
    catalogue.require_changeable()
    await _changed(catalogue, rollouts.put_canary, catalogue, name, source, body.share, body.by)
    return plain.described(catalogue[name], catalogue)


async def _put_shadow(catalogue: Catalogue, name: str, request: Request) -> schemas.Model:
    catalogue[name]
    body = await _read(NewShadow, request)
    source = Source.parse(body.source, body.runtime)
    catalogue.require_changeable()
    await _changed(catalogue, rollouts.put_shadow, catalogue, name, source, body.share)
    return plain.described(catalogue[name], catalogue)


async def _end(catalogue: Catalogue, name: str, what: str) -> Response:
    catalogue.require_changeable()
    rollouts.remove(catalogue, name, what)
    return Response(status_code=204)


async def _read(schema: type[New], request: Request) -> New:
    """The version in a body. Raises InputError."""
    try:
        body = request_bodies.validated(schema, await request.body())
    except ValidationError as error:
        raise InputError(request_bodies.sentence(error)) from None
    if "=" in body.source or not body.source.partition("@")[0].strip():
        forms = "NAME, NAME@ALIAS or NAME@NUMBER is expected"
        raise InputError(f"source: {forms}; folders are named when the service starts")
    return body


async def _delete(catalogue: Catalogue, name: str) -> Response:
    await _changed(catalogue, catalogue.remove, name)
    return Response(status_code=204)
