"""A registered model at one moment, read without MLflow, whose import takes seconds: from SQLite, or by its REST API.

It serves refusals, and commands that open a model to answer. Whatever cannot be read this way is None, and is then
asked of MLflow's own client.
"""

import base64
import http.client
import json
import os
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from pipelines.core.errors import InputError, choices
from pipelines.tracking import local_versions, store
from pipelines.tracking.ledger_events import END, SUFFIX, TAG, Kept

CHALLENGER = "challenger"  # the alias of the version that was registered last
SECONDS = 2  # for an answer; with a slower server MLflow's client waits for longer
MOST = 1000  # names and events in one answer; a registry with more is asked by MLflow's client
# variables that let MLflow's client reach its registry in another way than here
OTHER_WAYS = (
    "MLFLOW_REGISTRY_URI",
    "MLFLOW_WORKSPACE",
    "MLFLOW_TRACKING_AUTH",
    "MLFLOW_TRACKING_AWS_SIGV4",
    "MLFLOW_TRACKING_INSECURE_TLS",
    "MLFLOW_TRACKING_SERVER_CERT_PATH",
    "MLFLOW_TRACKING_CLIENT_CERT_PATH",
)
FAILURES = (sqlite3.Error, OSError, http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True)
class Snapshot:
    """A registered model, or its absence.

    Attributes:
        names: the registered models, without ledgers; filled only if the model is absent.
        aliases: alias -> version; None if there is no such model.
        versions: the numbers of its versions, without deleted ones.
        end: the end of the ledger as its tag says; read before the events.
        events: the events of the ledger.
    """

    names: list[str] = field(default_factory=list)
    aliases: dict[str, int] | None = None
    versions: frozenset[int] = frozenset()
    end: str = ""
    events: tuple[Kept, ...] = ()


@dataclass(frozen=True)
class StoredVersion:
    """A version as the registry has it: its tags, and the address of its files."""

    tags: dict[str, str]
    uri: str


def read(name: str) -> Snapshot | None:
    """The model `name` in the store that MLFLOW_TRACKING_URI names, else in this checkout's; None if it is unknown."""
    try:
        registry = _registry()
        if registry and not store.is_there():
            return Snapshot()
        return registry.snapshot(name) if registry else None
    except FAILURES:
        return None


def stored_version(name: str, number: int) -> StoredVersion | None:
    """A version of the model `name` in the same store; None if it is unknown."""
    try:
        registry = _registry()
        return registry.version(name, number) if registry else None
    except FAILURES:
        return None


def _registry() -> "_Database | _Rest | None":
    """The store that is named, or this checkout's; None if MLflow's client may reach it in another way than here."""
    if any(os.environ.get(variable) for variable in OTHER_WAYS):
        return None
    address = os.environ.get("MLFLOW_TRACKING_URI", "")
    if not address or address.startswith("sqlite:///"):
        return _Database(Path(address.removeprefix("sqlite:///")) if address else local_versions.DATABASE)
    return _Rest(address) if address.startswith(("http://", "https://")) else None


def require_model(name: str, snapshot: Snapshot) -> dict[str, int]:
    """The aliases of the model. Raises InputError, with the names of those that exist, if there is none."""
    if not store.is_there():
        raise store.nothing_registered()
    if snapshot.aliases is None:
        raise InputError(f"{store.shown()}: {choices('registered model', name, snapshot.names)}")
    return snapshot.aliases


def require(name: str) -> None:
    """Raise InputError if no model `name` is registered; a store that cannot be read this way refuses nothing."""
    if snapshot := read(name):
        require_model(name, snapshot)


class _Database:
    """MLflow's tables in SQLite; the file is only read."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def snapshot(self, name: str) -> Snapshot:
        with local_versions.reading(self.file) as database:

            def rows(question: str, *values: str) -> list[Any]:
                return database.execute(question, values).fetchall()

            if not rows("SELECT 1 FROM registered_models WHERE name = ?", name):
                names = [str(row[0]) for row in rows("SELECT name FROM registered_models")]
                return Snapshot([other for other in names if not other.endswith(SUFFIX)])
            aliases = rows("SELECT alias, version FROM registered_model_aliases WHERE name = ?", name)
            where = f"WHERE name = ? AND {local_versions.NOT_DELETED}"
            versions = rows(f"SELECT version FROM model_versions {where}", name)
            end = rows("SELECT value FROM registered_model_tags WHERE name = ? AND key = ?", name + SUFFIX, END)
            tags = rows("SELECT version, value FROM model_version_tags WHERE name = ? AND key = ?", name + SUFFIX, TAG)
            ledger = rows(f"SELECT version, creation_time FROM model_versions {where} ORDER BY version", name + SUFFIX)
        texts = dict(tags)
        events = (Kept(int(number), int(at_ms), str(texts.get(number, ""))) for number, at_ms in ledger)
        numbers = frozenset(int(row[0]) for row in versions)
        return Snapshot([], {str(a): int(v) for a, v in aliases}, numbers, str(end[0][0]) if end else "", tuple(events))

    def version(self, name: str, number: int) -> StoredVersion:
        """Raises KeyError if there is no such version."""
        where = "WHERE name = ? AND version = ?"
        with local_versions.reading(self.file) as database:
            question = f"SELECT storage_location, source FROM model_versions {where} AND {local_versions.NOT_DELETED}"
            row = database.execute(question, (name, number)).fetchone()
            tags = database.execute(f"SELECT key, value FROM model_version_tags {where}", (name, number)).fetchall()
        if not row:
            raise KeyError(number)
        return StoredVersion({str(key): str(value) for key, value in tags}, str(row[0] or row[1]))


class _Rest:
    """An MLflow server's documented REST API, asked without following redirects."""

    def __init__(self, address: str) -> None:
        url = urlsplit(address)
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        if not url.hostname:
            raise ValueError(address)
        self.connection, self.path = kind(url.hostname, url.port, timeout=SECONDS), url.path.rstrip("/")
        user = url.username or os.environ.get("MLFLOW_TRACKING_USERNAME")
        word = url.password or os.environ.get("MLFLOW_TRACKING_PASSWORD")
        token = os.environ.get("MLFLOW_TRACKING_TOKEN")
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        if user and word:
            self.headers = {"Authorization": "Basic " + base64.b64encode(f"{user}:{word}".encode()).decode()}

    def ask(self, what: str, **values: str) -> dict[str, Any]:
        """The answer to one question; {} where the server says that there is no such thing. Raises else."""
        query = urlencode(values, quote_via=quote)
        self.connection.request("GET", f"{self.path}/api/2.0/mlflow/{what}?{query}", headers=self.headers)
        response = self.connection.getresponse()
        answer: Any = json.loads(response.read())
        if response.status == http.client.NOT_FOUND and answer["error_code"] == "RESOURCE_DOES_NOT_EXIST":
            return {}
        if response.status != http.client.OK or answer.get("next_page_token"):
            raise ValueError(f"{what}: status {response.status}, or more than one page")
        return dict(answer)

    def snapshot(self, name: str) -> Snapshot:
        try:
            model = self.ask("registered-models/get", name=name)
            if not model:
                models = self.ask("registered-models/search", max_results=str(MOST)).get("registered_models", [])
                return Snapshot([m["name"] for m in models if not m["name"].endswith(SUFFIX)])
            aliases = {a["alias"]: int(a["version"]) for a in model["registered_model"].get("aliases", [])}
            ledger = self.ask("registered-models/get", name=name + SUFFIX).get("registered_model", {})
            end = {tag["key"]: tag["value"] for tag in ledger.get("tags", [])}.get(END, "")
            events = (
                Kept(int(v["version"]), int(v["creation_timestamp"]), _tags(v).get(TAG, ""))
                for v in sorted(self._versions(name + SUFFIX), key=lambda v: int(v["version"]))
            )
            numbers = frozenset(int(v["version"]) for v in self._versions(name))
            return Snapshot([], aliases, numbers, end, tuple(events))
        finally:
            self.connection.close()

    def version(self, name: str, number: int) -> StoredVersion:
        """Raises KeyError if there is no such version."""
        try:
            version = self.ask("model-versions/get", name=name, version=str(number))["model_version"]
            uri = self.ask("model-versions/get-download-uri", name=name, version=str(number))["artifact_uri"]
        finally:
            self.connection.close()
        return StoredVersion(_tags(version), str(uri))

    def _versions(self, name: str) -> list[Any]:
        answer = self.ask("model-versions/search", filter=f"name='{name}'", max_results=str(MOST))
        return list(answer.get("model_versions", []))


def _tags(version: dict[str, Any]) -> dict[str, str]:
    return {tag["key"]: tag["value"] for tag in version.get("tags", [])}
