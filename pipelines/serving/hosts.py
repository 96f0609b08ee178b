"""Refuse requests under other host names than the service's own.

A page of another site can make a browser send requests to this machine under the site's own name (DNS rebinding). A
service without keys must not answer them.
"""

from typing import Any

from pipelines.serving import request_work
from pipelines.serving.refusals import Refusals


class RequireHost:
    """An ASGI middleware that refuses a Host header with another name (400); without names it takes every one."""

    def __init__(self, app: Any, names: tuple[str, ...], refusals: Refusals) -> None:
        self.app, self.names, self.refusals = app, names, refusals

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and self.names:
            values = [value.decode("latin-1") for name, value in scope["headers"] if name.lower() == b"host"]
            if len(values) != 1 or _name(values[0]) not in self.names:
                why = f"the service answers under {', '.join(self.names)} only; start it with --keys or --open"
                request_work.refuse("another host name")
                await self.refusals.response(scope, 400, why, {})(scope, receive, send)
                return
        await self.app(scope, receive, send)


def _name(host: str) -> str:
    """The name in a Host header, without its port and the brackets of IPv6."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()
