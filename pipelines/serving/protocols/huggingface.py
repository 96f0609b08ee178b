"""Hugging Face's inference API: `POST /hf/{name}`, which is the address that huggingface_hub.InferenceClient takes."""

from typing import Any

import orjson
from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict
from starlette.requests import Request

from pipelines.core.errors import InputError, choices
from pipelines.inference import embedding
from pipelines.serving import answering, hugging_face_tasks, limits, refusals, request_bodies, served_model
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.problems import Problem
from pipelines.serving.served_model import ServedModel

PREFIXES = ("/hf",)
JSON = "application/json"


class HuggingFaceRequest(BaseModel):
    """One input or a list of them; the parameters of feature-extraction stand beside them."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": [{"inputs": "新型スマートフォンの発売日"}]})

    inputs: Any
    parameters: dict[str, Any] | None = None


class Label(BaseModel):
    label: str
    score: float  # of a regression its number


class EntityGroup(BaseModel):
    entity_group: str
    score: float
    word: str
    start: int
    end: int


class FilledMask(BaseModel):
    score: float
    token: int
    token_str: str
    sequence: str


class SpanAnswer(BaseModel):
    answer: str
    score: float
    start: int
    end: int


One = list[Label] | list[EntityGroup] | list[FilledMask] | list[list[FilledMask]] | SpanAnswer
HuggingFaceAnswer = One | list[One] | list[list[float]]  # of one input, of a list of them, or their vectors


class HuggingFaceError(BaseModel):
    error: str  # one sentence


ERROR = HuggingFaceError  # the body of every error


RESPONSES: dict[int | str, dict[str, Any]] = {
    404: {"model": HuggingFaceError, "description": "No model with this name is served."},
    422: {"model": HuggingFaceError, "description": "The request is invalid; `error` says what is wrong."},
    429: {"model": HuggingFaceError, "description": "Too many requests wait; Retry-After says when to try again."},
    500: {"model": HuggingFaceError, "description": "The service failed; its log says why."},
    503: {"model": HuggingFaceError, "description": "The service starts or stops; try again."},
    504: {"model": HuggingFaceError, "description": "No answer within x-request-timeout-seconds."},
}
BODY = {"requestBody": {"required": True, "content": {JSON: {"schema": HuggingFaceRequest.model_json_schema()}}}}


def routes(catalogue: Catalogue) -> APIRouter:
    """The route of Hugging Face's inference API."""
    router = APIRouter()

    @router.post("/hf/{name}", responses=RESPONSES, response_model=HuggingFaceAnswer, openapi_extra=BODY)
    async def infer(name: str, request: Request) -> Any:
        """The answers of a model in the shape of the Hugging Face task of its kind.

        An encoder answers feature-extraction or, if the body has `parameters`, fill-mask.
        """
        return await answering.respond(_answer(catalogue, name, request), _error)

    return router


async def _answer(catalogue: Catalogue, name: str, request: Request) -> Response:
    catalogue[name]  # an unknown name is reported before anything in the body
    body = request_bodies.read(HuggingFaceRequest, await request.body())
    model = _model(catalogue, name, body)
    task = hugging_face_tasks.FOR_KIND[model.task.kind]
    parameters = request_bodies.checked(task.parameters, _parameters(model, body), "parameters")
    several = isinstance(body.inputs, list)
    if several and not body.inputs:
        raise InputError("inputs: the list is empty")
    limits.check_rows(len(body.inputs) if several else 1)
    rows = hugging_face_tasks.rows(model, body.inputs if several else [body.inputs], parameters)
    hugging_face_tasks.check(model, parameters, rows)
    columns = {column: [row[column] for row in rows] for column in model.inputs}
    model, predictions, _ = await answering.predictions(request, model, columns)
    pairs = zip(rows, predictions, strict=True)
    answers = [task.answer(model, row, prediction, parameters) for row, prediction in pairs]
    return Response(orjson.dumps(answers if several or task.nested else answers[0]), media_type=JSON)


def _model(catalogue: Catalogue, name: str, body: HuggingFaceRequest) -> ServedModel:
    """The model for a request. The clients of fill-mask send `parameters`, those of feature-extraction do not."""
    model = catalogue[name]
    if model.task.kind != embedding.KIND or body.parameters is None:
        return model
    fills = served_model.filler(name)
    return next((other for other in catalogue if other.name == fills), model)


def _parameters(model: ServedModel, body: HuggingFaceRequest) -> dict[str, Any]:
    """The parameters of a request. Raises InputError for unknown keys beside the inputs."""
    beside = body.model_extra or {}
    if beside and model.task.kind != embedding.KIND:
        key = min(beside)[: request_bodies.MAX_KEY]
        raise InputError(choices("key", key, HuggingFaceRequest.model_fields))
    return beside | (body.parameters or {})


def _error(problem: Problem) -> dict[str, str]:
    """The body of an error."""
    return {"error": problem.sentence}


def refusal(of: Problem) -> Response:
    """The response of an error that occurs before a route."""
    return refusals.shaped(of, _error(of))
