"""Responses of errors that occur before a route, in the shape of the protocol that the path belongs to."""

from collections.abc import Callable, Mapping
from typing import Any

import orjson
from starlette.responses import Response

from pipelines.serving.problems import Problem

Refusal = Callable[[Problem], Response]


class Refusals:
    """The refusals of protocols by the prefix of their paths; other paths get JSON with `detail`."""

    def __init__(self, by_prefix: Mapping[str, Refusal] | None = None) -> None:
        self.by_prefix = by_prefix or {}

    def response(self, scope: Any, status: int, why: str, headers: dict[str, str]) -> Response:
        """The response to a request (an ASGI scope) that is refused."""
        problem = Problem(status, why, headers)
        for prefix, refusal in self.by_prefix.items():
            if f"{scope['path']}/".startswith(f"{prefix}/"):
                return refusal(problem)
        return shaped(problem, {"detail": why})


def shaped(problem: Problem, body: dict[str, Any], status: int = 0) -> Response:
    """The response of a problem with a body in the shape of a protocol; `status` replaces that of the problem."""
    return Response(orjson.dumps(body), status or problem.status, problem.headers, media_type="application/json")
