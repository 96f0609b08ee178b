"""The routes of predictions, found in a table and called without FastAPI's router.

The router tries one route after the other and solves the parameters of an endpoint: half a millisecond of the event
loop for each request. Everything else, errors and the description included, is left to it.
"""

import inspect
from collections.abc import Iterable
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.routing import Route

MATCH = "bertline.match"  # the key of an ASGI scope


class Match(NamedTuple):
    route: Route
    names: dict[str, str]  # the parts of the path that the route names


class RouteTable:
    """The routes that take the whole request, by POST, and return a response, by the segments of their paths."""

    def __init__(self, routes: Iterable[Any]) -> None:
        self._by_shape: dict[tuple[int, str], list[tuple[list[str], Route]]] = {}
        for route in routes:
            takes = inspect.signature(route.endpoint).parameters if isinstance(route, Route) else {}
            if "request" in takes and route.methods == {"POST"}:
                segments = route.path.split("/")
                self._by_shape.setdefault((len(segments), segments[1]), []).append((segments, route))

    def find(self, scope: Any) -> Match | None:
        """The first route for a request (an ASGI scope of HTTP); None if the router has to look."""
        if scope["method"] != "POST" or scope.get("root_path"):
            return None
        parts = scope["path"].split("/")
        for segments, route in self._by_shape.get((len(parts), parts[1] if len(parts) > 1 else ""), ()):
            names = {}
            for segment, part in zip(segments, parts, strict=True):
                if segment.startswith("{") and part:
                    names[segment[1:-1]] = part
                elif segment != part:
                    break
            else:
                return Match(route, names)
        return None


class DirectRoutes:
    """An ASGI application that calls the endpoint of a request that has a match, and else `app`."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        match: Match | None = scope.get(MATCH)
        if not match:
            await self.app(scope, receive, send)
            return
        scope["route"], scope["path_params"] = match.route, match.names
        response = await match.route.endpoint(**match.names, request=Request(scope, receive))
        await response(scope, receive, send)
