"""The HTTP service: a Ray Serve application that answers with a registered model, by its alias."""

import threading
import time
from typing import Any

import pyarrow as pa
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from ray import serve

from pipelines.core import schema
from pipelines.core.errors import InputError, one_line
from pipelines.core.progress import say
from pipelines.inference.predictor import Predictor
from pipelines.serving import admission, bodies, docs_page, schemas
from pipelines.tracking import registry

ARGUMENTS = ("model", "alias", "runtime")
KEY = 40  # the most characters of an unknown key in an error, since the key may be long
DRAIN_SECONDS = 20  # for requests in flight when the service stops
FOLLOW_SECONDS = 10  # between two checks of the alias
api = FastAPI(
    title="bertline",
    description="Labels and probabilities for texts, from the champion of a registered model.",
    version="1",
    docs_url=None,  # FastAPI's pages load scripts from another host
    redoc_url=None,
)
api.add_middleware(admission.Turns)
api.add_middleware(bodies.LimitedBodies)  # added last, so it runs first
PROBLEM: dict[int | str, dict[str, Any]] = {
    400: {"model": schemas.Problem, "description": "The body is not UTF-8 text."},
    408: {"description": "The body was not sent in time, or the answer took too long.", **schemas.JSON_OR_TEXT},
    413: {"model": schemas.Problem, "description": "The body is too large."},
    422: {"model": schemas.Problem, "description": "The request is invalid; `detail` says what is wrong, and where."},
    500: {"description": "The service failed; its log says why.", **schemas.JSON_OR_TEXT},
    503: {"description": "Too many requests wait, or no replica is ready; try again.", **schemas.JSON_OR_TEXT},
}


@api.get("/docs", include_in_schema=False)
async def docs() -> Any:
    return docs_page.response()


@api.exception_handler(InputError)
async def _sentence(request: Any, error: InputError) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, status_code=422)


@api.exception_handler(Exception)
async def _failed(request: Any, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": "the service failed; its log says why"}, status_code=500)


@api.exception_handler(RequestValidationError)
async def _refused(request: Any, error: RequestValidationError) -> JSONResponse:
    """Reply with what is wrong, and where.

    The reply leaves out the input, which may be private, large, or not valid JSON.
    """
    first = error.errors()[0]
    place = ".".join(str(part)[:KEY] for part in first["loc"] if part != "body")
    return JSONResponse({"detail": f"{place or 'the body'}: {first['msg']}"}, status_code=422)


def answer(version: registry.Version, predictor: Predictor, request: schemas.Request) -> schemas.Answer:
    """The predictions of `predictor` for every row of a request.

    It is defined above the class `Service`, because Ray pickles the class at the end of its definition.
    """
    kind = predictor.task.kind
    given = {name for row in request.rows for name in row.model_fields_set if getattr(row, name) is not None}
    wanted = schema.INPUTS[kind]
    if extra := sorted(given - set(wanted)):
        raise InputError(f"{version} takes {', '.join(wanted)}, but not {extra[0]}")
    columns = {
        name: pa.array([getattr(row, name) for row in request.rows], schema.ROWS[kind].field(name).type)
        for name in wanted
    }
    answers = predictor.predict(pa.table(columns)).to_pylist()
    for row in answers:
        scores = row.pop("scores", None)
        if scores and request.scores:
            row["scores"] = dict(zip(predictor.task.labels, scores, strict=True))
    predictions = [schemas.Prediction(**row) for row in answers]
    return schemas.Answer(model=version.name, version=version.version, predictions=predictions)


@serve.deployment(
    max_ongoing_requests=admission.CONNECTIONS, max_queued_requests=64, graceful_shutdown_timeout_s=DRAIN_SECONDS
)
@serve.ingress(api)
class Service:
    """A replica with one model. It replaces the model when the alias moves, or when the config changes."""

    def __init__(self) -> None:
        self.said = ""  # the last logged reason why the champion could not be opened
        # a thread, as a registry may take minutes to answer, and Ray Serve kills a replica that fails its health check
        self.following = threading.Thread(target=self._keep_following, daemon=True)

    def reconfigure(self, config: dict[str, Any]) -> None:
        """Open the model that `config` names, and start to follow its alias.

        Args:
            config: {"model": a registered name, "alias": "champion", "runtime": "onnx" or "torch"}. The default runtime
                is the one in the version's tag `runtime`.
        """
        self.config = config
        self._open(self._wanted())
        if not self.following.is_alive():
            self.following.start()

    def _keep_following(self) -> None:
        while True:
            time.sleep(FOLLOW_SECONDS)
            self.follow()

    def follow(self) -> None:
        """Switch to the version that has the alias now.

        If the registry does not answer, or the version does not open, the current model stays; the log says so once.
        """
        try:
            wanted = self._wanted()
            if wanted.version != self.model_in_use[0].version:
                self._open(wanted)
            self.said = ""
        except Exception as error:  # of any type: the current version keeps answering
            if self.said != (why := one_line(error)):
                say(f"{self.model_in_use[0]} stays in use: {why}")
            self.said = why

    def _wanted(self) -> registry.Version:
        return registry.get(self.config["model"], self.config.get("alias", registry.CHAMPION))

    def _open(self, version: registry.Version) -> None:
        predictor = Predictor.load(registry.folder(version, self.config.get("runtime", "")))
        self.model_in_use = version, predictor  # one object, so that no answer mixes two versions

    @api.get("/health", responses={503: PROBLEM[503]})
    def health(self) -> dict[str, str]:
        """Return whether the service answers."""
        return {"status": "ok"}

    @api.get("/model", responses={status: PROBLEM[status] for status in (408, 500, 503)})
    def model(self) -> schemas.Model:
        """The model that answers, with its inputs and labels."""
        version, predictor = self.model_in_use
        task = predictor.task
        return schemas.Model(
            model=version.name,
            version=version.version,
            kind=task.kind,
            inputs=schema.INPUTS[task.kind],
            labels=list(task.labels),
            max_length=predictor.max_length,
        )

    @api.post("/predict", response_model_exclude_none=True, responses=PROBLEM)
    def predict(self, request: schemas.Request) -> schemas.Answer:
        """The model's predictions for the rows, in their order."""
        return answer(*self.model_in_use, request)


def app(arguments: dict[str, str]) -> serve.Application:
    """The application for a registered model, as `serve run pipelines.serving.app:app model=livedoor` builds it.

    Args:
        arguments: `model`, and optionally `alias` and `runtime`.
    """
    config = {"alias": registry.CHAMPION} | {name: arguments[name] for name in ARGUMENTS if name in arguments}
    return Service.options(user_config=config).bind()  # type: ignore[attr-defined]
