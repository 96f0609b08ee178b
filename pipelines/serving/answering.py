"""Answer one request: within its deadline, and only as long as its client is there."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from pipelines.core.errors import InputError
from pipelines.serving import problems, request_work
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.haproxy import DEADLINE, TIMEOUT
from pipelines.serving.problems import ClientGoneError, Problem
from pipelines.serving.served_model import Answered, ServedModel

UNWATCHED_SECONDS = 0.1  # most answers come before it is worth to look whether the client is there
MOST_SECONDS = 60.0  # the longest deadline, and the default


async def respond(answer: Awaitable[Any], shape: Callable[[Problem], dict[str, Any]]) -> Any:
    """The answer, or the response of its error.

    Args:
        shape: the body of an error in the protocol of the request.
    """
    try:
        return await answer
    except Exception as error:  # of any type: a client gets a status and one sentence
        problem = problems.of(error)
        return Response(orjson.dumps(shape(problem)), problem.status, problem.headers, media_type="application/json")


def has_model(catalogue: Catalogue) -> bool:
    """Return whether a model is served."""
    return any(True for _ in catalogue)


async def predictions(request: Request, model: ServedModel, columns: dict[str, list[Any]]) -> Answered:
    """The predictions of `model` for the rows of a request; a version on trial may let the former one answer.

    Raises what `ServedModel.predict` does, TimeoutError after the deadline, and ClientGoneError.
    """
    rows = max(map(len, columns.values()), default=0)
    request_work.note(model.name, model.version.version, rows)
    state = request.scope.get("state", {})
    with _Watch(request, deadline(request)):
        answered = await model.answer(columns, key=state.get("key", ""))
    request_work.note(model.name, answered.model.version.version, rows)  # a canary may have answered
    if store := state.get("store"):  # a RequestStore
        store.add(columns, answered)
    return answered


def deadline(request: Request) -> float:
    """The seconds that the client waits. Raises InputError for a header that is not a positive number."""
    text = request.headers.get(TIMEOUT, request.headers.get(DEADLINE))
    if text is None:
        return MOST_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise InputError(f"the header {TIMEOUT}: {text[:40]!r} is not a positive number of seconds")
    return min(seconds, MOST_SECONDS)


class _Watch:
    """A block that ends with TimeoutError after the deadline, or with ClientGoneError when the client hangs up.

    It makes no task for an answer that comes soon: asyncio's `wait` and `timeout` take a fifth of a request's time.
    """

    def __init__(self, request: Request, seconds: float) -> None:
        self.request, self.seconds = request, seconds
        self._error: Exception | None = None
        self._watching: asyncio.Task[None] | None = None  # it looks for the client, once that is worth it

    def __enter__(self) -> None:
        loop, self._answering = asyncio.get_running_loop(), asyncio.current_task()
        if self.seconds > UNWATCHED_SECONDS:
            self._timer = loop.call_later(UNWATCHED_SECONDS, self._look)
        else:
            self._timer = loop.call_later(self.seconds, self._end, self._late())

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._timer.cancel()
        if self._watching:
            self._watching.cancel()
        if self._error and self._answering and kind is asyncio.CancelledError:
            self._answering.uncancel()
            raise self._error from None

    def _look(self) -> None:
        self._watching = asyncio.get_running_loop().create_task(self._until_gone())

    async def _until_gone(self) -> None:
        try:
            async with asyncio.timeout(self.seconds - UNWATCHED_SECONDS):
                while (await self.request.receive())["type"] != "http.disconnect":  # the body was read before
                    pass
        except TimeoutError:
            self._end(self._late())
        else:
            self._end(ClientGoneError())

    def _late(self) -> TimeoutError:
        return TimeoutError(f"no answer within {self.seconds:g} s; the service is busy, or the deadline is too short")

    def _end(self, error: Exception) -> None:
        if self._answering and not self._answering.done():
            self._error = error
            self._answering.cancel()
