"""API keys with names and scopes, and the middleware that requires them."""

import hashlib
import hmac
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.core import secret_file
from pipelines.core.errors import InputError, choices
from pipelines.serving.problems import Problem
from pipelines.serving.refusals import Refusals

PREDICT, ADMIN = "predict", "admin"
SCOPES = (PREDICT, ADMIN)
# paths without a key: whether the service lives, and pages that hold nothing of a model
OPEN = ("/", "/docs", "/openapi.json", "/health", "/ping", "/v2/health/live", "/v2/health/ready")
FILES = "/page/"  # where the files of these pages are
CHANGES = ("PUT", "PATCH", "DELETE")  # methods of the scope admin
CHANGED = "/models/"  # where they have routes
REFRESH = "/refresh"  # below it, the end of a path that needs the scope admin too, by POST
LEAST = 16  # characters of a key


class Key(NamedTuple):
    name: str  # in logs, metrics and the shares of the queue
    digest: bytes  # sha256 of the key
    scopes: frozenset[str]


class Keys:
    """The keys of a service; a service without keys answers everybody."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self.keys = tuple(keys)

    @classmethod
    def read(cls, path: Path) -> "Keys":
        """The keys of a file: a line `NAME KEY [SCOPE,...]` each; the scope is `predict` by default.

        Raises InputError with every line that is wrong, but without its key.
        """
        return cls.parse(secret_file.lines(path), str(path))

    @classmethod
    def parse(cls, lines: list[str], place: str) -> "Keys":
        """The keys of the lines of a file; `place` begins the messages of errors."""
        keys: dict[str, Key] = {}
        problems: list[str] = []
        for number, line in enumerate(lines, 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            problem = _problem(words, keys)
            if problem:
                problems.append(f"{place}: line {number}: {problem}")
            else:
                scopes = frozenset(words[2].split(",") if len(words) == 3 else [PREDICT])
                keys[words[0]] = Key(words[0], _digest(words[1].encode()), scopes)
        if not keys and not problems:
            problems.append(f"{place}: no keys; write a line `NAME KEY` for each")
        if problems:
            raise InputError("\n".join(problems))
        return cls(keys.values())

    def find(self, key: bytes) -> Key | None:
        """The entry of a key. Every entry is compared, so the time says nothing about the keys."""
        digest, match = _digest(key), None
        for entry in self.keys:
            if hmac.compare_digest(entry.digest, digest):
                match = entry
        return match


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def _problem(words: list[str], keys: dict[str, Key]) -> str:
    """The problem of a line of the file; empty without one."""
    if len(words) not in (2, 3):
        return f"{len(words)} words; NAME KEY or NAME KEY SCOPES is expected"
    if words[0] in keys:
        return f"the name {words[0]} occurs twice"
    if len(words[1]) < LEAST:
        return f"the key of {words[0]} has {len(words[1])} characters; {LEAST} or more are expected"
    unknown = [scope for scope in (words[2].split(",") if len(words) == 3 else []) if scope not in SCOPES]
    if unknown:
        return choices("scope", unknown[0], SCOPES)
    digest = _digest(words[1].encode())
    same = [key.name for key in keys.values() if key.digest == digest]
    return f"{same[0]} and {words[0]} have the same key" if same else ""


class RequireKey:
    """An ASGI middleware that refuses requests without a key (401), or without the scope of their path (403).

    A key is sent as `Authorization: Bearer KEY` or `X-API-Key: KEY`. `scope["state"]["key"]` is its name.
    """

    def __init__(self, app: Any, keys: Keys, refusals: Refusals | None = None) -> None:
        self.app, self.keys, self.refusals = app, keys, refusals or Refusals()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and (problem := self._problem(scope)):
            response = self.refusals.response(scope, problem.status, problem.sentence, problem.headers)
            await response(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _problem(self, scope: Any) -> Problem | None:
        """The reason to refuse a request; None if there is none. Notes the name of its key."""
        admin = scope["method"] in CHANGES
        if not self.keys.keys:
            why = "models are changed with a key of the scope admin; start the service with --keys"
            return Problem(403, why, {}) if admin and scope["path"].startswith(CHANGED) else None
        if entry := self.keys.find(_sent(scope["headers"])):
            scope.setdefault("state", {})["key"] = entry.name
        if scope["path"] in OPEN or scope["path"].startswith(FILES):
            return None
        if not entry:
            why = "no valid API key; send it as `Authorization: Bearer KEY`"
            return Problem(401, why, {"WWW-Authenticate": "Bearer"})
        wanted = ADMIN if admin or _refreshes(scope) else PREDICT
        return None if wanted in entry.scopes else Problem(403, f"the key {entry.name} lacks the scope {wanted}", {})


def _refreshes(scope: Any) -> bool:
    path = scope["path"].rstrip("/")
    return scope["method"] == "POST" and path.startswith(CHANGED) and path.endswith(REFRESH)


def _sent(headers: list[tuple[bytes, bytes]]) -> bytes:
    """The key of a request; empty without one."""
    values = {name.lower(): value for name, value in headers}
    kind, _, key = values.get(b"authorization", b"").partition(b" ")
    bearer = key.strip() if kind.lower() == b"bearer" else b""
    return bearer or values.get(b"x-api-key", b"")
