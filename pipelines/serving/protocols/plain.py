"""The service's own protocol: `POST /predict/{model}` with rows, and what is served, described by OpenAPI."""

from collections.abc import Sequence
from typing import Any

import orjson
from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import ValidationError
from starlette.requests import Request

from pipelines.core.errors import InputError
from pipelines.inference.cascade_watch import CascadeWatch
from pipelines.serving import answering, refusals, request_bodies, schemas
from pipelines.serving.answering import respond
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.problems import Problem
from pipelines.serving.served_model import ServedModel
from pipelines.serving.side_versions import Canary, Shadow

PREFIXES = ("/predict", "/models", "/model", "/health")
JSON = "application/json"
ERROR = schemas.Problem  # the body of every error
PROBLEM: dict[int | str, dict[str, Any]] = {
    404: {"model": schemas.Problem, "description": "No model with this name is served."},
    408: {"description": "The body was not sent in time.", **schemas.JSON_OR_TEXT},
    413: {"model": schemas.Problem, "description": "The body is too large."},
    422: {"model": schemas.Problem, "description": "The request is invalid; `detail` says what is wrong, and where."},
    429: {"model": schemas.Problem, "description": "Too many requests wait; Retry-After says when to try again."},
    500: {"description": "The service failed; its log says why.", **schemas.JSON_OR_TEXT},
    503: {"description": "The service starts or stops, or serves no model; try again.", **schemas.JSON_OR_TEXT},
    504: {"model": schemas.Problem, "description": "No answer within x-request-timeout-seconds."},
}
BODY = {
    "requestBody": {"required": True, "content": {JSON: {"schema": {"$ref": "#/components/schemas/Request"}}}},
    "parameters": [{"name": answering.TIMEOUT, "in": "header", "schema": {"type": "number", "maximum": 60}}],
}
DESCRIBED: dict[int | str, dict[str, Any]] = {status: PROBLEM[status] for status in (404, 422, 500, 503)}


def routes(catalogue: Catalogue) -> APIRouter:
    """The routes of the plain protocol."""
    router = APIRouter()

    @router.get("/health", responses={503: PROBLEM[503]}, response_model=schemas.Health)
    async def health() -> Any:
        """Return whether the service answers, and has a model to answer with."""
        if not answering.has_model(catalogue):
            return refusal(Problem(503, "no model is served", {}))
        return schemas.Health(status="ok")

    @router.get("/models")
    async def models() -> list[schemas.Model]:
        """The served models; the first one answers requests without a name."""
        return [described(model, catalogue) for model in catalogue]

    @router.get("/models/{name}", responses=DESCRIBED, response_model=schemas.Model)
    async def model(name: str) -> Any:
        """The version that answers, with its inputs and labels."""
        return await respond(_described(catalogue, name), detail)

    @router.get("/model", responses=DESCRIBED, response_model=schemas.Model)
    async def first() -> Any:
        """The first model."""
        return await respond(_described(catalogue, ""), detail)

    @router.post("/predict/{name}", response_model=schemas.Answer, responses=PROBLEM, openapi_extra=BODY)
    async def predict(name: str, request: Request) -> Any:
        """The predictions of a model for the rows, in their order."""
        return await respond(_answer(catalogue, name, request), detail)

    @router.post("/predict", response_model=schemas.Answer, responses=PROBLEM, openapi_extra=BODY)
    async def predict_first(request: Request) -> Any:
        """The predictions of the first model for the rows, in their order."""
        return await respond(_answer(catalogue, "", request), detail)

    return router


def described(model: ServedModel, catalogue: Catalogue) -> schemas.Model:
    refused, ended = catalogue.refused(model.name), catalogue.ended.get(model.name)
    return schemas.Model(
        name=model.name,
        source=catalogue.source(model.name),
        model=model.version.name,
        version=model.version.version,
        kind=model.task.kind,
        inputs=model.inputs,
        labels=list(model.task.labels),
        max_length=model.predictor.max_length,
        row_difference=model.row_difference,
        digest=model.digest,
        refused=schemas.Refused(version=refused.version, reason=refused.reason) if refused else None,
        canary=_canary(model.canary) if model.canary else None,
        ended_canary=schemas.Refused(version=ended.version, reason=ended.reason) if ended else None,
        shadow=_shadow(model.shadow) if model.shadow else None,
        cascade=_cascade(model.watch) if model.watch else None,
    )


def _cascade(watch: CascadeWatch) -> schemas.Cascade:
    composition, compared = watch.composition, watch.compared
    return schemas.Cascade(
        champion=composition.champion,
        agreement=composition.agreement,
        compared=compared.rows,
        differing=compared.differing,
    )


def _canary(canary: Canary) -> schemas.Canary:
    return schemas.Canary(
        version=canary.model.version.version,
        share=canary.share,
        by=canary.by,
        requests=canary.requests,
        failures=canary.failures,
        replay=_replay(canary),
    )


def _shadow(shadow: Shadow) -> schemas.Shadow:
    number = shadow.model.version.version
    return schemas.Shadow(version=number, share=shadow.share, rows=dict(shadow.rows), replay=_replay(shadow))


def _replay(side: Canary | Shadow) -> schemas.LiveShare | None:
    return schemas.LiveShare(**side.live.numbers()) if side.live else None


async def _described(catalogue: Catalogue, name: str) -> schemas.Model:
    return described(catalogue[name] if name else catalogue.first(), catalogue)


async def _answer(catalogue: Catalogue, name: str, request: Request) -> Response:
    model = catalogue[name] if name else catalogue.first()
    sent = parsed(await request.body(), model.inputs)
    by_column = columns(sent.rows, model.inputs)
    model, predictions, cut = await answering.predictions(request, model, by_column)
    signer = catalogue.signer if model.version.version else None  # a folder is no version
    receipts = model.signed(signer, by_column, predictions) if signer else None
    with_scores = sent.scores
    for number, row in enumerate(predictions):
        if receipts:
            row["receipt"] = receipts[number]
        scores = row.pop("scores", None)
        if scores and with_scores:
            row["scores"] = dict(zip(model.task.labels, scores, strict=True))
    version = model.version
    answer = {"model": version.name, "version": version.version, "predictions": predictions}
    if cut:
        answer["truncated"] = cut
    return Response(orjson.dumps(answer), media_type=JSON)


def parsed(body: bytes, inputs: Sequence[str]) -> schemas.Request:
    """The request in a body. Raises InputError with what is wrong, and where, but without the input.

    The input may be private, large, or not valid JSON. Where the rows themselves are missing, or are no objects, the
    sentence has a body with a row of the columns `inputs`.
    """
    try:
        return request_bodies.validated(schemas.Request, body)
    except ValidationError as error:
        raise InputError(request_bodies.sentence(error) + _example(error, inputs)) from None


def _example(error: ValidationError, inputs: Sequence[str]) -> str:
    """The form of a body, if it is the form that is wrong, and not a value of a row."""
    if error.errors(include_url=False, include_input=False)[0]["type"] not in ("missing", "list_type", "model_type"):
        return ""
    row = {name: ["...", "..."] if name == "choices" else "..." for name in inputs}
    return f"; send {orjson.dumps({'rows': [row]}).decode()}"


def columns(rows: list[schemas.Row], inputs: Sequence[str] = ()) -> dict[str, list[Any]]:
    """The rows by column: every column that a row has, and those of `inputs`."""
    names = {name for row in rows for name in row.model_fields_set if getattr(row, name) is not None}
    return {name: [getattr(row, name, None) for row in rows] for name in sorted(names | set(inputs))}


def detail(problem: Problem) -> dict[str, str]:
    """The body of an error."""
    return {"detail": problem.sentence}


def refusal(problem: Problem) -> Response:
    """The response of an error that occurs before a route."""
    return refusals.shaped(problem, detail(problem))
