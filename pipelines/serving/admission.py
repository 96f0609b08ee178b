"""Limit the requests: a few are answered at a time, some wait, and the others get a 503."""

import asyncio
from typing import Any

from fastapi.responses import JSONResponse

AT_A_TIME, WAITING = 16, 64
# requests that Ray Serve sends to a replica at a time; a slow body holds one of these, but none of AT_A_TIME
CONNECTIONS = 256


class Turns:
    """An ASGI middleware that lets at most `at_a_time` POST requests run, and `waiting` others wait.

    Their bodies have been read completely before (`bodies.LimitedBodies`).
    """

    def __init__(self, app: Any, at_a_time: int = AT_A_TIME, waiting: int = WAITING) -> None:
        self.app, self.most = app, at_a_time + waiting
        self.turns, self.admitted = asyncio.Semaphore(at_a_time), 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":  # GET, such as /health, is answered at any time
            await self.app(scope, receive, send)
        elif self.admitted >= self.most:
            why = f"{self.admitted} requests are running or waiting; try again"
            await JSONResponse({"detail": why}, 503, {"Retry-After": "1"})(scope, receive, send)
        else:
            self.admitted += 1
            try:
                async with self.turns:
                    await self.app(scope, receive, send)
            finally:
                self.admitted -= 1
