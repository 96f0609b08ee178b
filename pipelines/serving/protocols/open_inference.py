"""The Open Inference Protocol v2 (KServe, Triton): `POST /v2/models/{name}/infer`, and what is served.

Inputs are the columns of the rows as BYTES tensors, outputs the columns of the predictions (`tensors.outputs`). The
service has two of Triton's extensions, binary tensor data and classification. Specification:
github.com/kserve/open-inference-protocol, github.com/triton-inference-server/server/tree/main/docs/protocol.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from typing import Any

import orjson
from fastapi import APIRouter
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from pipelines.core.errors import choices
from pipelines.inference.runtimes import Onnx
from pipelines.serving import answering, refusals, schemas, tensor_bodies, tensors
from pipelines.serving.catalogue import Catalogue, UnknownModelError
from pipelines.serving.problems import Problem
from pipelines.serving.served_model import ServedModel
from pipelines.serving.tensor_bodies import InferenceRequest, InferenceResponse

PREFIX = "/v2"
PREFIXES = (PREFIX,)
EXTENSIONS = ["binary_tensor_data", "classification"]
JSON, BINARY = "application/json", "application/octet-stream"
MODEL = "/v2/models/{name}"
VERSION = MODEL + "/versions/{version}"
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


class InferenceError(BaseModel):
    error: str


ERROR = InferenceError  # the body of every error


class MetadataTensor(BaseModel):
    name: str
    datatype: str
    shape: list[int]  # -1: the number of rows


class ModelMetadata(BaseModel):
    name: str
    versions: list[str]
    platform: str
    inputs: list[MetadataTensor]
    outputs: list[MetadataTensor]


class ServerMetadata(BaseModel):
    name: str
    version: str
    extensions: list[str]


class ServerLive(BaseModel):
    live: bool


class ServerReady(BaseModel):
    ready: bool


class ModelReady(BaseModel):
    name: str
    ready: bool


REASONS = {
    400: "The request is invalid; `error` says what is wrong, and where.",
    404: "No model or version with this name is served.",
    408: "The body was not sent in time.",
    413: "The body is too large.",
    429: "Too many requests wait; Retry-After says when to try again.",
    500: "The service failed; its log says why.",
    503: "The service starts or stops; try again.",
    504: "No answer within the timeout.",
}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": InferenceError, "description": reason, **(schemas.TEXT if status in (408, 500, 503) else {})}
    for status, reason in REASONS.items()
}
NO_MODEL: dict[int | str, dict[str, Any]] = {status: PROBLEMS[status] for status in (404, 500, 503)}


def routes(catalogue: Catalogue) -> APIRouter:
    """The routes of the protocol."""
    router = APIRouter()
    _add_health(router, catalogue)
    _add_metadata(router, catalogue)
    _add_infer(router, catalogue)

    @router.api_route(PREFIX, methods=METHODS, include_in_schema=False)
    @router.api_route(PREFIX + "/{path:path}", methods=METHODS, include_in_schema=False)
    async def unknown() -> Response:
        """The error for every other path below /v2."""
        return refusal(Problem(404, "no such path, or not with this method; /docs lists those of the service", {}))

    return router


def _add_health(router: APIRouter, catalogue: Catalogue) -> None:
    @router.get("/v2/health/live")
    async def live() -> ServerLive:
        """Return whether the server answers."""
        return ServerLive(live=True)

    @router.get("/v2/health/ready", response_model=ServerReady, responses={503: {"model": ServerReady}})
    async def ready() -> Response:
        """Return whether the models are open."""
        is_ready = answering.has_model(catalogue)
        return Response(orjson.dumps({"ready": is_ready}), 200 if is_ready else 503, media_type=JSON)

    @router.get(MODEL + "/ready", response_model=ModelReady, responses=NO_MODEL)
    async def model_ready(name: str) -> Response:
        """Return whether a model is open."""
        return await respond(_ready(catalogue, name))

    @router.get(VERSION + "/ready", response_model=ModelReady, responses=NO_MODEL)
    async def version_ready(name: str, version: str) -> Response:
        """Return whether a version of a model is open."""
        return await respond(_ready(catalogue, name, version))


def _add_metadata(router: APIRouter, catalogue: Catalogue) -> None:
    @router.get(PREFIX)
    async def server_metadata(request: Request) -> ServerMetadata:
        """The extensions of the protocol that the service has."""
        return ServerMetadata(name="bertline", version=request.app.version, extensions=EXTENSIONS)

    @router.get(MODEL, response_model=ModelMetadata, responses=NO_MODEL)
    async def model_metadata(name: str) -> Response:
        """The tensors that a model reads and returns."""
        return await respond(_metadata(catalogue, name))

    @router.get(VERSION, response_model=ModelMetadata, responses=NO_MODEL)
    async def version_metadata(name: str, version: str) -> Response:
        """The tensors that a version of a model reads and returns."""
        return await respond(_metadata(catalogue, name, version))


def _add_infer(router: APIRouter, catalogue: Catalogue) -> None:
    binary: dict[str, Any] = {BINARY: {"schema": {"type": "string", "format": "binary"}}}  # JSON, then binary tensors
    body = {JSON: {"schema": _inlined(InferenceRequest.model_json_schema())}, **binary}
    headers = [
        {"name": answering.TIMEOUT, "in": "header", "schema": {"type": "number", "maximum": 60}},
        {"name": tensor_bodies.LENGTH, "in": "header", "schema": {"type": "integer", "minimum": 0}},
    ]
    described: dict[str, Any] = {
        "response_model": InferenceResponse,
        "responses": PROBLEMS | {200: {"content": binary}},
        "openapi_extra": {"requestBody": {"required": True, "content": body}, "parameters": headers},
    }

    @router.post(MODEL + "/infer", **described)
    async def model_infer(name: str, request: Request) -> Response:
        """The predictions of a model for the rows in the input tensors."""
        return await respond(_infer(catalogue, request, name))

    @router.post(VERSION + "/infer", **described)
    async def version_infer(name: str, version: str, request: Request) -> Response:
        """The predictions of a version of a model for the rows in the input tensors."""
        return await respond(_infer(catalogue, request, name, version))


def _served(catalogue: Catalogue, name: str, version: str) -> ServedModel:
    """The model with this name.

    Raises UnknownModelError if there is none, or if `version` is another than it has.
    """
    model = catalogue[name]
    number = str(model.version.version)
    if version and version != number:
        raise UnknownModelError(choices(f"version of {model.name}", version, [number]))
    return model


async def _ready(catalogue: Catalogue, name: str, version: str = "") -> Response:
    model = _served(catalogue, name, version)
    return Response(orjson.dumps({"name": model.name, "ready": True}), media_type=JSON)


async def _metadata(catalogue: Catalogue, name: str, version: str = "") -> Response:
    model = _served(catalogue, name, version)
    about = {
        "name": model.name,
        "versions": [str(model.version.version)],
        "platform": "onnxruntime_onnx" if model.predictor.runtime.name == Onnx.name else "pytorch",
        "inputs": [asdict(tensor) for tensor in tensors.inputs(model.task).values()],
        "outputs": [asdict(tensor) for tensor in tensors.outputs(model.task).values()],
    }
    return Response(orjson.dumps(about), media_type=JSON)


async def _infer(catalogue: Catalogue, request: Request, name: str, version: str = "") -> Response:
    model = _served(catalogue, name, version)
    if version:  # the client wants this one and no other
        model = replace(model, canary=None, alone=True)
    sent, binary = tensor_bodies.parsed(await request.body(), request.headers.get(tensor_bodies.LENGTH))
    columns = tensor_bodies.columns(sent, binary, model)
    tensor_bodies.returned(sent, model.task)  # what is wrong with them is said before the request waits
    microseconds = sent.parameters.timeout if sent.parameters else 0
    async with _within(microseconds / 1e6):
        model, predictions, _ = await answering.predictions(request, model, columns)
    outputs = tensor_bodies.returned(sent, model.task)  # of the version that answered, which may have other labels
    body, json_length = tensor_bodies.answer(sent.id, model, outputs, predictions)
    if json_length is None:
        return Response(body, media_type=JSON)
    return Response(body, headers={tensor_bodies.LENGTH: str(json_length)}, media_type=BINARY)


@asynccontextmanager
async def _within(seconds: float) -> AsyncIterator[None]:
    """Raise TimeoutError, with a sentence, if the block takes longer; 0 is no limit."""
    try:
        async with asyncio.timeout(seconds or None):
            yield
    except TimeoutError as error:  # asyncio's own has no message
        raise TimeoutError(str(error) or f"no answer within {seconds:g} s, the timeout of the request") from None


async def respond(answer: Awaitable[Response]) -> Response:
    """The answer, or the response of its error."""
    response = await answering.respond(answer, error)
    response.status_code = _status(response.status_code)
    return response


def refusal(problem: Problem) -> Response:
    """The response of an error that occurs before a route of the protocol, or without one."""
    return refusals.shaped(problem, error(problem), _status(problem.status))


def error(problem: Problem) -> dict[str, str]:
    """The body of an error."""
    return {"error": problem.sentence}


def _status(status: int) -> int:
    """The protocol's status for one of the service: an invalid request is 400."""
    return 400 if status == 422 else status


def _inlined(part: Any, named: dict[str, Any] | None = None) -> Any:
    """A JSON schema with the definitions in place of the references to them."""
    if isinstance(part, list):
        return [_inlined(inner, named) for inner in part]
    if not isinstance(part, dict):
        return part
    named = part.get("$defs", {}) if named is None else named
    if "$ref" in part:
        return _inlined(named[part["$ref"].rpartition("/")[2]], named)
    return {key: _inlined(inner, named) for key, inner in part.items() if key != "$defs"}
