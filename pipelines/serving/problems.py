"""Map errors to a status, one sentence and headers; each protocol has a shape of its own for them."""

import math
import traceback
from typing import NamedTuple

from pipelines.core.errors import InputError
from pipelines.core.progress import say
from pipelines.serving.admission import BusyError
from pipelines.serving.catalogue import UnknownModelError
from pipelines.serving.row_batcher import ModelError


class Problem(NamedTuple):
    status: int
    sentence: str
    headers: dict[str, str]


class ClientGoneError(Exception):
    """The client closed the connection before its answer."""


def of(error: Exception) -> Problem:
    """The problem that a client gets for an error; an error of the service goes to its log."""
    if isinstance(error, BusyError):
        waits = {"Retry-After": str(math.ceil(error.seconds)), "Retry-After-Ms": str(math.ceil(error.seconds * 1000))}
        return Problem(429, str(error), waits)
    if isinstance(error, UnknownModelError):
        return Problem(404, str(error), {})
    if isinstance(error, TimeoutError):
        return Problem(504, str(error), {})
    if isinstance(error, ClientGoneError):
        return Problem(499, "the client closed the connection", {})
    if isinstance(error, InputError):
        return Problem(422, str(error), {})
    say(f"a request failed: {_described(error)}")
    return Problem(500, "the service failed; its log says why", {})


def _described(error: Exception) -> str:
    """The type and the place of an error, without its message, which may quote a text of the request."""
    if isinstance(error, ModelError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"
