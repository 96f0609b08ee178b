"""OpenAI's embeddings API: `POST /v1/embeddings` and `GET /v1/models`, for the encoders that are served."""

import base64
from typing import Any, Literal

import orjson
from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.requests import Request

from pipelines.core.errors import InputError, choices
from pipelines.inference import embedding
from pipelines.serving import answering, refusals, request_bodies
from pipelines.serving.catalogue import Catalogue, UnknownModelError
from pipelines.serving.problems import Problem
from pipelines.serving.request_bodies import Strict
from pipelines.serving.served_model import ServedModel

PREFIXES = ("/v1",)
JSON = "application/json"
TYPES = {404: "not_found_error", 429: "rate_limit_error"}  # other errors are of the request (4xx) or the server (5xx)


class EmbeddingsRequest(Strict):
    """Texts to embed."""

    input: Any = Field(examples=[["新型スマートフォンの発売日", "映画の公開日"]])  # a text or a list of texts
    model: str = Field(examples=["mini-ja"])
    encoding_format: Literal["float", "base64"] | None = None  # by default numbers
    dimensions: Any = None  # refused
    user: str | None = None  # read by no one


class Vector(BaseModel):
    object: Literal["embedding"]
    index: int
    embedding: list[float] | str  # numbers, or base64 of their float32 values


class Usage(BaseModel):
    prompt_tokens: int
    total_tokens: int


class Embeddings(BaseModel):
    object: Literal["list"]
    data: list[Vector]
    model: str
    usage: Usage


class EmbeddingModel(BaseModel):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class EmbeddingModels(BaseModel):
    object: Literal["list"]
    data: list[EmbeddingModel]


class OpenAIProblem(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(BaseModel):
    error: OpenAIProblem


ERROR = OpenAIError  # the body of every error


RESPONSES: dict[int | str, dict[str, Any]] = {
    404: {"model": OpenAIError, "description": "No model with this name has embeddings."},
    422: {"model": OpenAIError, "description": "The request is invalid; `message` says what is wrong."},
    429: {"model": OpenAIError, "description": "Too many requests wait; Retry-After says when to try again."},
    500: {"model": OpenAIError, "description": "The service failed; its log says why."},
    503: {"model": OpenAIError, "description": "The service starts or stops; try again."},
    504: {"model": OpenAIError, "description": "No answer within x-request-timeout-seconds."},
}
BODY = {"requestBody": {"required": True, "content": {JSON: {"schema": EmbeddingsRequest.model_json_schema()}}}}


def routes(catalogue: Catalogue) -> APIRouter:
    """The routes of OpenAI's embeddings API."""
    router = APIRouter(prefix="/v1")

    @router.post("/embeddings", responses=RESPONSES, response_model=Embeddings, openapi_extra=BODY)
    async def embeddings(request: Request) -> Any:
        """A vector of length 1 for each text."""
        return await answering.respond(_answer(catalogue, request), _error)

    @router.get("/models", response_model=EmbeddingModels)
    async def models() -> dict[str, Any]:
        """The models that embed texts."""
        return {"object": "list", "data": [_described(model) for model in _embedders(catalogue).values()]}

    one: dict[int | str, dict[str, Any]] = {status: RESPONSES[status] for status in (404, 422)}

    @router.get("/models/{name}", responses=one, response_model=EmbeddingModel)
    async def model(name: str) -> Any:
        """One of these models."""
        return await answering.respond(_one(catalogue, name), _error)

    return router


async def _answer(catalogue: Catalogue, request: Request) -> Response:
    body = request_bodies.read(EmbeddingsRequest, await request.body())
    model = _embedder(catalogue, body.model)
    if body.dimensions is not None:
        raise InputError("dimensions: vectors are not shortened; leave it out")
    model, predictions, _ = await answering.predictions(request, model, {"text": _texts(body.input)})
    data = [
        {"object": "embedding", "index": i, "embedding": _written(prediction["vector"], body.encoding_format)}
        for i, prediction in enumerate(predictions)
    ]
    tokens = sum(prediction["tokens"] for prediction in predictions)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    answer = {"object": "list", "data": data, "model": model.name, "usage": usage}
    return Response(orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY), media_type=JSON)


def _texts(value: Any) -> list[str]:
    """The texts of a request. Raises InputError."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts:
        raise InputError("input: a text, or a list of one or more texts, is expected")
    if any(isinstance(text, int | list) for text in texts):
        raise InputError("input: token ids are not read, as tokenizers differ; send texts")
    if not all(isinstance(text, str) for text in texts):
        raise InputError("input: a list of texts is expected")
    return texts


def _written(vector: list[float], encoding: str | None) -> Any:
    """The vector with length 1: as numbers, or as its float32 values, lowest byte first, in base64."""
    numbers = embedding.unit(vector)
    return base64.b64encode(numbers.astype("<f4").tobytes()).decode() if encoding == "base64" else numbers


def _embedders(catalogue: Catalogue) -> dict[str, ServedModel]:
    return {model.name: model for model in catalogue if model.task.kind == embedding.KIND}


def _embedder(catalogue: Catalogue, name: str) -> ServedModel:
    """The model with this name. Raises UnknownModelError."""
    models = _embedders(catalogue)
    if name not in models:
        raise UnknownModelError(choices("model with embeddings", name[:60], models))
    return models[name]


async def _one(catalogue: Catalogue, name: str) -> dict[str, Any]:
    return _described(_embedder(catalogue, name))


def _described(model: ServedModel) -> dict[str, Any]:
    return {"id": model.name, "object": "model", "created": 0, "owned_by": "bertline"}


def _error(problem: Problem) -> dict[str, Any]:
    """The body of an error."""
    kind = TYPES.get(problem.status) or ("invalid_request_error" if problem.status < 500 else "server_error")
    code = "model_not_found" if problem.status == 404 else None
    return {"error": {"message": problem.sentence, "type": kind, "param": None, "code": code}}


def refusal(of: Problem) -> Response:
    """The response of an error that occurs before a route."""
    return refusals.shaped(of, _error(of))
