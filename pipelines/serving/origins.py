"""Pages of other origins that a browser lets call the service (CORS); by default none may.

Only a browser asks for this. It decides nothing about who may call: keys do.
"""

import re
from collections.abc import Iterable
from typing import Any

from starlette.middleware.cors import CORSMiddleware

from pipelines.core.errors import UsageError

ALL = "*"  # every origin
ORIGIN = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9_-]+(\.[a-z0-9_-]+)*)(:[0-9]{1,5})?")
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE")  # a key of the scope admin may come from a page too
EXPOSED = ("X-Request-Id", "Retry-After", "Retry-After-Ms", "Inference-Header-Content-Length")  # a script may read them
SECONDS = 7200  # that a browser remembers an answer to its preflight; Chromium remembers no longer


def checked(origins: Iterable[str], place: str) -> tuple[str, ...]:
    """The origins, each once. Raises UsageError, which begins with `place`, for what a browser never sends as one."""
    once = tuple(dict.fromkeys(str(origin).lower() for origin in origins))
    for origin in once:
        if origin != ALL and not ORIGIN.fullmatch(origin):
            raise UsageError(
                f"{place}: {origin[:60]!r} is no origin; write the scheme, the host and the port alone, such as "
                f"https://www.example.com or http://127.0.0.1:3000, or {ALL} for every page"
            )
    return once


def allowing(app: Any, origins: tuple[str, ...]) -> Any:
    """The ASGI application `app` for pages of these origins too; without origins it is `app` itself."""
    return _Allowing(app, origins) if origins else app


class _Allowing:
    """An ASGI middleware that leaves requests of pages to Starlette's, which is slower, and the others alone.

    Preflights are answered here, as they have no key. They may name any header: clients for browsers send headers of
    their own, and the service reads few. Cookies are not asked for, as the service has none.
    """

    def __init__(self, app: Any, origins: tuple[str, ...]) -> None:
        self.app = app
        self.pages = CORSMiddleware(
            app,
            allow_origins=origins,
            allow_methods=METHODS,
            allow_headers=("*",),
            expose_headers=EXPOSED,
            allow_private_network=True,  # a page of the web that names a service of this machine or its network
            max_age=SECONDS,
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or any(name == b"origin" for name, _ in scope["headers"]):
            await self.pages(scope, receive, send)
            return

        async def varying(message: Any) -> None:
            if message["type"] == "http.response.start":  # a cache must not give this answer to a page
                message["headers"] = [*message.get("headers", []), (b"vary", b"Origin")]
            await send(message)

        await self.app(scope, receive, varying)
