"""MLflow's scoring protocol: `POST /invocations` with JSON, CSV or Parquet, and what mlflow.deployments' client calls.

The answers are those of `mlflow models serve` (mlflow/pyfunc/scoring_server); the models are not opened as pyfuncs.
"""

from collections.abc import Awaitable
from importlib import metadata
from typing import Any

import orjson
from fastapi import APIRouter
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from pipelines.core import schema
from pipelines.core.errors import InputError, choices
from pipelines.serving import answering, csv_rows, frames, parquet_rows, refusals, request_bodies, schemas
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.problems import Problem
from pipelines.serving.served_model import ServedModel

PREFIXES = ("/invocations", "/endpoints", "/api/2.0")
JSON, CSV, PARQUET = "application/json", "text/csv", "application/vnd.apache.parquet"
INVALID, BAD_REQUEST, UNSUPPORTED = 422, 400, 415  # the service's status of invalid input; MLflow's statuses
# MLflow's error codes (mlflow.exceptions.ERROR_CODE_TO_HTTP_STATUS)
CODES = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "RESOURCE_DOES_NOT_EXIST",
    429: "REQUEST_LIMIT_EXCEEDED",
    499: "CANCELLED",
    500: "INTERNAL_ERROR",
    501: "NOT_IMPLEMENTED",
    503: "TEMPORARILY_UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class Predictions(BaseModel):
    predictions: list[dict[str, Any]]  # a row's prediction, with a probability for each label if params.scores is true


class ScoringProblem(BaseModel):
    error_code: str
    message: str


ERROR = ScoringProblem  # the body of every error


class ModelInfo(BaseModel):
    name: str  # the registered name and the version
    provider: str


class Endpoint(BaseModel):
    """A served model, as mlflow.deployments.server.config.Endpoint."""

    name: str
    endpoint_type: str  # the kind of the model's rows
    model: ModelInfo
    endpoint_url: str
    limit: None = None


FRAME = {"type": "object", "description": f"One of {', '.join(frames.FORMS)}; and, optionally, params."}
BODY = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {"schema": FRAME, "example": {"dataframe_split": {"columns": ["text"], "data": [["text"]]}}},
            CSV: {"schema": {"type": "string"}},
            PARQUET: {"schema": {"type": "string", "format": "binary"}},
        },
    },
    "parameters": [{"name": answering.TIMEOUT, "in": "header", "schema": {"type": "number", "maximum": 60}}],
}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": ScoringProblem, "description": "The request is invalid; `message` says what is wrong."},
    404: {"model": ScoringProblem, "description": "No model with this name is served."},
    408: {"model": ScoringProblem, "description": "The body was not sent in time.", **schemas.TEXT},
    413: {"model": ScoringProblem, "description": "The body is too large."},
    415: {"model": ScoringProblem, "description": f"The body is not {JSON}, {CSV} or {PARQUET}."},
    429: {"model": ScoringProblem, "description": "Too many requests wait; Retry-After says when to try again."},
    500: {"model": ScoringProblem, "description": "The service failed; its log says why.", **schemas.TEXT},
    503: {"model": ScoringProblem, "description": "The service starts or stops; try again.", **schemas.TEXT},
    504: {"model": ScoringProblem, "description": "No answer within x-request-timeout-seconds."},
}
# bodies that are no JSON, in the media type that MLflow's server sends
PING: dict[int | str, dict[str, Any]] = {
    200: {"description": "A line end: a model is served.", "content": {JSON: {}}},
    404: {"description": "A line end: no model is served.", "content": {JSON: {}}},
}
VERSION: dict[int | str, dict[str, Any]] = {200: {"description": "Such as 3.1.0.", "content": {JSON: {}}}}
SCORING: dict[str, Any] = {"response_model": Predictions, "responses": PROBLEMS, "openapi_extra": BODY}


def routes(catalogue: Catalogue) -> APIRouter:
    """The routes of MLflow's scoring server, and of its gateway."""
    router = APIRouter()

    @router.get("/ping", response_class=Response, responses=PING)
    async def ping() -> Response:
        """Return 200 if a model is served."""
        return Response("\n", 200 if answering.has_model(catalogue) else 404, media_type=JSON)

    @router.get("/version", response_class=Response, responses=VERSION)
    async def mlflow_version() -> Response:
        """The version of MLflow, as plain text."""
        return Response(metadata.version("mlflow"), media_type=JSON)

    @router.post("/invocations", **SCORING)
    async def invoke_first(request: Request) -> Any:
        """The predictions of the first model for the rows, in their order."""
        return await _responded(_answer(catalogue, "", request))

    @router.post("/invocations/{name}", **SCORING)
    async def invoke(name: str, request: Request) -> Any:
        """The predictions of a model for the rows, in their order."""
        return await _responded(_answer(catalogue, name, request))

    _add_gateway(router, catalogue)
    return router


def _add_gateway(router: APIRouter, catalogue: Catalogue) -> None:
    """Add the routes of the gateway that mlflow.deployments queries."""

    @router.post("/endpoints/{name}/invocations", **SCORING)
    async def query_endpoint(name: str, request: Request) -> Any:
        """The same, at the path of mlflow.deployments' client."""
        return await _responded(_answer(catalogue, name, request))

    @router.get("/api/2.0/endpoints", include_in_schema=False)
    @router.get("/api/2.0/endpoints/")
    async def endpoints() -> dict[str, list[Endpoint]]:
        """The served models, as mlflow.deployments' client lists them."""
        return {"endpoints": [endpoint(model) for model in catalogue]}

    @router.get("/api/2.0/endpoints/{name}", response_model=Endpoint, responses={404: PROBLEMS[404]})
    async def one_endpoint(name: str) -> Any:
        """A served model, as mlflow.deployments' client gets it."""
        return await _responded(_endpoint(catalogue, name))


def endpoint(model: ServedModel) -> Endpoint:
    info = ModelInfo(name=f"{model.version.name}/{model.version.version}", provider="bertline")
    path = f"/endpoints/{model.name}/invocations"
    return Endpoint(name=model.name, endpoint_type=model.task.kind, model=info, endpoint_url=path)


async def _endpoint(catalogue: Catalogue, name: str) -> Response:
    return Response(endpoint(catalogue[name]).model_dump_json(), media_type=JSON)


async def _responded(answer: Awaitable[Response]) -> Response:
    """The answer, or its error with MLflow's shape and status."""
    response = await answering.respond(answer, problem)
    if response.status_code == INVALID:
        response.status_code = BAD_REQUEST
    return response


def problem(of: Problem) -> dict[str, str]:
    """The body of an error."""
    return {"error_code": CODES.get(of.status, "BAD_REQUEST"), "message": of.sentence}


async def _answer(catalogue: Catalogue, name: str, request: Request) -> Response:
    model = catalogue[name] if name else catalogue.first()
    kind, content_type = model.task.kind, request.headers.get("content-type", "")
    body, form, with_scores = await request.body(), media_type(content_type), False
    if form == JSON:
        columns, with_scores = parsed(body, model.inputs)
    elif form in (CSV, PARQUET):
        columns = (csv_rows if form == CSV else parquet_rows).columns(body, kind)
    else:
        sentence = f"the Content-Type must be {JSON}, {CSV} or {PARQUET}, and a charset utf-8"
        return Response(orjson.dumps(problem(Problem(UNSUPPORTED, sentence, {}))), UNSUPPORTED, media_type=JSON)
    frames.check(columns, kind)
    rows: list[dict[str, Any]] = []
    if any(columns.values()):
        model, rows, _ = await answering.predictions(request, model, columns)
    for row in rows:
        scores = row.pop("scores", None)
        if scores and with_scores:  # a column for each label, as the pyfunc returns them
            row |= zip(schema.score_columns(model.task.labels), scores, strict=True)
    return Response(orjson.dumps({"predictions": rows}), media_type=JSON)


def media_type(content_type: str) -> str:
    """The type in the header Content-Type; empty if it has a charset other than UTF-8, or another parameter."""
    name, *parameters = (part.strip().lower() for part in content_type.split(";"))
    return name if all(part.replace('"', "") == "charset=utf-8" for part in parameters if part) else ""


def parsed(body: bytes, inputs: list[str]) -> tuple[frames.Columns, bool]:
    """The columns in a JSON body, and whether every label's probability is requested. Raises InputError."""
    try:
        sent = orjson.loads(request_bodies.without_mark(body))
    except orjson.JSONDecodeError:  # its message may repeat the body
        raise InputError(request_bodies.NO_JSON) from None
    if not isinstance(sent, dict):
        raise InputError(f"the body must be an object with one of {', '.join(frames.FORMS)}")
    for key in sent:
        if key not in (*frames.FORMS, "params"):
            raise InputError(f"the body: {choices('key', key, [*frames.FORMS, 'params'])}")
    forms = [key for key in sent if key in frames.FORMS]
    if len(forms) != 1:
        raise InputError(f"the body must have exactly one of {', '.join(frames.FORMS)}; it has {len(forms)}")
    return frames.of_json(forms[0], sent[forms[0]], inputs), _scores(sent.get("params"))


def _scores(params: Any) -> bool:
    """The parameter `scores`, which is the only one of a registered model; false by default."""
    if not isinstance(params, dict | None):
        raise InputError('params must be an object, such as {"scores": true}')
    for name in params or {}:
        if name != "scores":
            raise InputError(f"params: {choices('parameter', name, ['scores'])}")
    scores = (params or {}).get("scores")
    if not isinstance(scores, bool | None):
        raise InputError("params.scores must be true or false")
    return bool(scores)


def refusal(of: Problem) -> Response:
    """The response of an error that occurs before a route."""
    return refusals.shaped(of, problem(of), BAD_REQUEST if of.status == INVALID else of.status)
