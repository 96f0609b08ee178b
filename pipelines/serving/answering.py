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


async def predictions(request: Request, model: ServedModel, columns: dict[str, list[Any]]) -> Answered:
    """The predictions of `model` for the rows of a request; a version on trial may let the former one answer.

    Raises what `ServedModel.predict` does, TimeoutError after the deadline, and ClientGoneError.
    """
    seconds = deadline(request)
    rows = max(map(len, columns.values()), default=0)
    request_work.note(model.name, model.version.version, rows)
    work = asyncio.ensure_future(model.answer(columns, key=request.scope.get("state", {}).get("key", "")))
    try:
        await asyncio.wait({work}, timeout=min(seconds, UNWATCHED_SECONDS))
        if not work.done() and seconds > UNWATCHED_SECONDS:
            await _while_connected(request, work, seconds - UNWATCHED_SECONDS)
        if work.done():
            answered = work.result()
            request_work.note(model.name, answered.model.version.version, rows)  # a canary may have answered
            if store := request.scope.get("state", {}).get("store"):  # a RequestStore
                store.add(columns, answered)
            return answered
        raise TimeoutError(f"no answer within {seconds:g} s; the service is busy, or the deadline is too short")
    finally:
        work.cancel()


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


async def _while_connected(request: Request, work: asyncio.Future[Any], seconds: float) -> None:
    """Wait for `work`, at most so many seconds. Raises ClientGoneError if the client closes the connection before."""
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({work, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if gone.done() and not work.done():
            raise ClientGoneError
    finally:
        gone.cancel()


async def _disconnected(request: Request) -> None:
    """Wait until the client closes the connection; the body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
