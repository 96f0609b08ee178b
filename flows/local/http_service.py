"""Start the HTTP service on this machine, wait for it, send it requests, stop it."""

import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pipelines.core.errors import InputError
from pipelines.serving import deployment


@contextmanager
def started(host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Ray Serve on this machine, with no model yet; yields its address, and stops everything that it started."""
    port = port or free_port(host)
    with deployment.started(host, port) as address:
        yield address


@contextmanager
def serving(
    name: str, alias: str = "champion", host: str = "127.0.0.1", port: int = 0, runtime: str = ""
) -> Iterator[str]:
    """Serve a registered model; yields its address, and stops everything that it started."""
    from pipelines.tracking import registry  # takes seconds, and most that is here does without

    registry.get(name, alias)  # before Ray takes its seconds to start
    require_free(host, port)
    with started(host, port) as address:
        deployment.run({"model": name, "alias": alias, "runtime": runtime})
        try:
            yield address
        finally:
            deployment.drain()


def ask(address: str, path: str, body: dict[str, Any] | None = None, seconds: float = 60) -> dict[str, Any]:
    """Send one request with JSON, a POST if it has a body. Raises InputError if the service answers with an error."""
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(address + path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise InputError(f"{address}{path}: {error.code}: {error.read().decode()[:300]}") from None


def require_free(host: str, port: int) -> None:
    """Raise InputError if the service could not listen there."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except (OSError, OverflowError) as error:
        raise InputError(f"{host}:{port}: no service can listen there ({error})") from None


def free_port(host: str = "127.0.0.1") -> int:
    """A port on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


def wait_for(url: str, seconds: float) -> None:
    """Wait until `url` answers. Raises InputError after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError as error:
            if time.monotonic() > deadline:
                raise InputError(f"{url}: no answer within {seconds:.0f} s ({error})") from None
            time.sleep(0.5)
