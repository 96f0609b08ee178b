"""Map errors to a status, one sentence and headers; each protocol has a shape of its own for them."""

import math
from typing import NamedTuple

from pipelines.core.errors import InputError, one_line
from pipelines.core.progress import say
from pipelines.serving.admission import BusyError
from pipelines.serving.catalogue import UnknownModelError


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
    say(f"a request failed: {type(error).__name__}: {one_line(error)}")
    return Problem(500, "the service failed; its log says why", {})
