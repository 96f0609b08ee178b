"""HEAD for every path that takes GET (RFC 9110, 9.3.2): load balancers and monitors of uptime ask so."""

from typing import Any


class AnswerHead:
    """An ASGI middleware that answers HEAD as GET, without the body."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope.get("method") != "HEAD":
            await self.app(scope, receive, send)
            return

        async def without_body(message: Any) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        as_get = {**scope, "method": "GET"}  # the server itself goes by its own scope
        try:
            await self.app(as_get, receive, without_body)
        finally:
            scope |= {name: as_get[name] for name in ("route", "state") if name in as_get}  # for the log
