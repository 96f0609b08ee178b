"""The admission of requests: a few are answered at a time, some wait, and those beyond get a 503."""

import asyncio
from typing import Any

from fastapi.responses import JSONResponse

AT_A_TIME, WAITING = 16, 64
# what Ray Serve passes on to a replica at a time: a body that is slow holds a place of these, and none of AT_A_TIME
CONNECTIONS = 256


class Turns:
    """An ASGI application that gives requests with a body their turn; they are whole when they come here."""

    def __init__(self, app: Any, at_a_time: int = AT_A_TIME, waiting: int = WAITING) -> None:
        self.app, self.most = app, at_a_time + waiting
        self.turns, self.admitted = asyncio.Semaphore(at_a_time), 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":  # whether it answers is told at any time
            await self.app(scope, receive, send)
        elif self.admitted >= self.most:
            why = f"{self.admitted} requests are being answered or wait; try again"
            await JSONResponse({"detail": why}, 503, {"Retry-After": "1"})(scope, receive, send)
        else:
            self.admitted += 1
            try:
                async with self.turns:
                    await self.app(scope, receive, send)
            finally:
                self.admitted -= 1
