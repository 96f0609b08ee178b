"""Refuse predictions while too much is waiting, before their bodies are read."""

from typing import Any

from pipelines.serving import problems, request_work, served_model
from pipelines.serving.admission import BusyError
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.direct_routes import MATCH, Match, RouteTable
from pipelines.serving.refusals import Refusals
from pipelines.serving.served_model import ServedModel


class RefuseEarly:
    """An ASGI middleware that finds the route of a prediction, and refuses it (429) if its model's queue is full.

    The body of a refused request is neither read nor parsed, so that refusals cost the service little when there are
    many; the server skips it, and the connection stays open.
    """

    def __init__(self, app: Any, table: RouteTable, catalogue: Catalogue, refusals: Refusals) -> None:
        self.app, self.table, self.catalogue, self.refusals = app, table, catalogue, refusals

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        match = self.table.find(scope) if scope["type"] == "http" else None
        if match:
            try:
                self._require_place(match, scope.get("state", {}).get("key", ""))
            except BusyError as error:
                scope["route"] = match.route
                problem = problems.of(error)
                # a client that expects "100 Continue" may send its body, or not
                close = {"Connection": "close"} if any(name == b"expect" for name, _ in scope["headers"]) else {}
                response = self.refusals.response(scope, problem.status, problem.sentence, problem.headers | close)
                await response(scope, receive, send)
                return
            scope[MATCH] = match
        await self.app(scope, receive, send)

    def _require_place(self, match: Match, key: str) -> None:
        """Raise the soonest BusyError if every model that the request may be for has a full queue for its key."""
        name = match.names.get("name", "")
        models = [
            model for model in self.catalogue if name in ("", model.name) or model.name == served_model.filler(name)
        ]
        refusal: tuple[ServedModel, BusyError] | None = None
        for model in models:
            try:
                model.batcher.queue.admit(key)
                return
            except BusyError as error:
                if not refusal or error.seconds < refusal[1].seconds:
                    refusal = model, error
        if refusal:
            request_work.note(refusal[0].name, refusal[0].version.version, 0)
            raise refusal[1]
