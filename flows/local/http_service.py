"""Start the HTTP service on this machine, wait for it, send it requests, stop it."""

import json
import os
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvicorn

from flows.local import code_commit
from pipelines.core import ports
from pipelines.core.errors import InputError, UsageError, choices
from pipelines.inference.receipt_keys import ReceiptKeys
from pipelines.inference.receipts import Signer
from pipelines.serving import certificates, connections, request_log, rollouts, spans
from pipelines.serving.app import application
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.certificates import Certificate
from pipelines.serving.certification import Conditions
from pipelines.serving.connections import Connection
from pipelines.serving.disagreements import Disagreements
from pipelines.serving.encrypted_server import EncryptedServer
from pipelines.serving.keys import Keys
from pipelines.serving.model_sources import Source
from pipelines.serving.request_store import FOLDER as REQUESTS
from pipelines.serving.request_store import RequestStore

VARIABLE = "BERTLINE_KEYS"  # lines as of a file of keys, or with a semicolon between them
LOG_VARIABLE = "BERTLINE_LOG_FORMAT"
OTLP_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
WITHOUT_KEY = "other machines could ask without a key; name a file of keys with --keys, or add --open"
BACKLOG = 2048  # connections that wait to be accepted
Share = tuple[Source, float]
DRAIN_SECONDS = 20  # for requests in flight when the service stops
ABORT_SECONDS = 0.05  # until connections are closed again, after a second signal


@dataclass(frozen=True)
class Settings:
    """The address of a service, who may ask it, and what it writes about requests."""

    host: str = "127.0.0.1"
    port: int = 0  # 0 takes a free port
    keys: Keys = field(default_factory=Keys)  # that requests need
    hosts: tuple[str, ...] = ()  # the only names in a Host header that are answered; by default all
    log_format: str = request_log.OFF
    conditions: Conditions = field(default_factory=Conditions)  # for versions that replace others
    canaries: dict[str, Share] = field(default_factory=dict)  # see rollouts.parsed
    shadows: dict[str, Share] = field(default_factory=dict)
    disagreements: Disagreements | None = None  # takes what shadows answer otherwise
    signer: Signer | None = None  # of a receipt for each answer
    exporter: str = ""  # of OpenTelemetry's spans (`spans.exported`)
    request_days: int = 0  # the days that predicted rows are stored; 0: they are not
    request_texts: bool = False  # whether their texts are stored too
    origins: tuple[str, ...] = ()  # of pages that browsers let call the service (`origins.checked`)
    certificate: Certificate | None = None  # with one the service speaks TLS alone


def beside(
    sources: dict[str, Source], runtime: str, canaries: Iterable[str], shadows: Iterable[str],
    disagreements: Path | None, texts: bool, receipts: Path | None = None,
) -> tuple[dict[str, Share], dict[str, Share], Disagreements | None, Signer | None]:  # fmt: skip
    """The fields of `Settings` from `canaries` to `signer`, by the options of `bertline serve`. Raises UsageError."""
    if texts and not disagreements:
        raise UsageError("--store-texts: name a folder with --disagreements")
    if disagreements and not shadows:
        raise UsageError("--disagreements: there is no shadow; name one with --shadow")
    answering = rollouts.parsed(canaries, sources, runtime, rollouts.CANARY_SHARE)
    reading = rollouts.parsed(shadows, sources, runtime, rollouts.SHADOW_SHARE)
    differing = Disagreements(disagreements, texts) if disagreements else None
    return answering, reading, differing, signer(receipts, sources)


def certificate(file: Path | None, key: Path | None) -> Certificate | None:
    """The certificate in these files; None without. Raises InputError with what is wrong with them."""
    if key and not file:
        raise UsageError(f"{certificates.KEY_OPTION}: name the certificate too, with {certificates.OPTION}")
    return Certificate(file, key) if file else None


def stored_days(days: int | None, texts: bool) -> int:
    """The days that requests are stored; 0 without the option. Raises UsageError for texts without days."""
    if texts and not days:
        raise UsageError("--keep-texts: say for how many days with --keep-requests")
    return days or 0


def signer(path: Path | None, sources: dict[str, Source]) -> Signer | None:
    """The signer of receipts, with the last key of the file. Raises UsageError for a model that has no version."""
    if not path:
        return None
    for name, source in sources.items():
        if source.folder:
            raise UsageError(f"--receipts: {name} is a folder, and receipts name a version; register the model")
    return Signer(ReceiptKeys.read(path).current, code_commit.current())


@contextmanager
def serving(sources: dict[str, Source], settings: Settings | None = None) -> Iterator[str]:
    """Serve models from this process; yields the service's address, and ends after the requests in flight.

    Raises:
        InputError: a model cannot be opened, or nothing can listen at the address.
    """
    settings = settings or Settings()
    host, catalogue = settings.host, Catalogue(conditions=settings.conditions)
    listener = _listener(host, settings.port)
    with closing(listener), closing(catalogue), ThreadPoolExecutor(1, "http") as threads:
        catalogue.serve(sources)
        catalogue.disagreements, catalogue.signer = settings.disagreements, settings.signer
        if settings.request_days:
            catalogue.store = RequestStore(REQUESTS, settings.request_days, settings.request_texts)
        for name, (source, share) in settings.canaries.items():
            rollouts.put_canary(catalogue, name, source, share)
        for name, (source, share) in settings.shadows.items():
            rollouts.put_shadow(catalogue, name, source, share)
        traced = spans.exported(settings.exporter)
        about = settings.keys, settings.hosts, settings.log_format, traced, settings.origins
        server = http_server(application(catalogue, *about), settings.certificate)
        # in a thread, as uvicorn in the main thread takes over the signals
        running = threads.submit(server.run, sockets=[listener])
        try:
            yield certificates.address(host, listener.getsockname()[1], settings.certificate)
        finally:
            _drain(server, running)
            if traced:
                traced.close()


def _drain(server: uvicorn.Server, running: Future[None]) -> None:
    """Wait for the requests in flight; a second signal closes their connections, as no model answers after it."""
    try:
        server.should_exit = True
        running.result()  # Thread.join, interrupted by a signal, takes the thread for ended before Python 3.13
    except BaseException:
        while wait([running], ABORT_SECONDS).not_done:  # clients that lose a connection open new ones
            with suppress(RuntimeError):  # the server has just ended
                for connection in list(server.server_state.connections):
                    if isinstance(connection, Connection):  # else it is within its handshake
                        connection.loop.call_soon_threadsafe(connection.transport.abort)
        raise


def http_server(app: Any, certificate: Certificate | None = None, **more: Any) -> uvicorn.Server:
    """A server for an application; `more` are options of uvicorn."""
    config = uvicorn.Config(
        app,
        log_level="error",  # its warnings are of clients; the log of requests has what matters of them
        access_log=False,
        http=Connection,
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=DRAIN_SECONDS,
        timeout_keep_alive=int(connections.IDLE_SECONDS),
        **more,
    )
    return EncryptedServer(config, certificate.context) if certificate else uvicorn.Server(config)


@contextmanager
def serving_in_ray(sources: dict[str, Source], settings: Settings | None = None) -> Iterator[str]:
    """Serve models from replicas in Ray Serve; yields the proxy's address, and stops everything that it started."""
    from pipelines.serving import deployment  # Ray takes seconds to import

    settings = settings or Settings()
    if settings.disagreements:
        raise UsageError("--disagreements: replicas in Ray Serve only count them; leave it out, or --ray")
    if settings.signer:
        raise UsageError("--receipts: replicas in Ray Serve sign none; leave it out, or --ray")
    if settings.request_days:
        raise UsageError("--keep-requests: replicas in Ray Serve store no requests; leave it out, or --ray")
    for source in sources.values():
        source.version()  # a name that does not exist is found before Ray takes its seconds to start
    beside = {"canary": _numbered(settings.canaries), "shadow": _numbered(settings.shadows)}
    require_free(settings.host, settings.port)
    port = settings.port or ports.free_port(settings.host)
    with deployment.started(settings.host, port, settings.certificate) as address:
        _require_keys(address, settings)
        models = {name: str(source) for name, source in sources.items()}
        runtime = next(iter(sources.values())).runtime
        config = {"models": models, "runtime": runtime, **beside, **asdict(settings.conditions)}
        about = settings.keys, settings.hosts, settings.log_format, settings.exporter, settings.origins
        deployment.run(config, *about)
        deployment.warn_of_listeners(address)
        try:
            yield address
        finally:
            deployment.drain()


def _numbered(beside: dict[str, tuple[Source, float]]) -> list[str]:
    """Versions and shares for the config of replicas, by number: an alias may move before the next replica starts."""
    return [f"{source.model}@{source.version().version}:{share}" for source, share in beside.values()]


def log_format(chosen: str = "") -> str:
    """The format of the lines of requests: the chosen one, else that of BERTLINE_LOG_FORMAT.

    By default lines are text on a terminal and JSON elsewhere; with --quiet there are none. Raises UsageError.
    """
    name = chosen or os.environ.get(LOG_VARIABLE, "")
    if not name:
        if os.environ.get("BERTLINE_QUIET"):
            return request_log.OFF
        return request_log.TEXT if sys.stderr.isatty() else request_log.JSON
    if name not in request_log.FORMATS:
        place = "--log-format" if chosen else LOG_VARIABLE
        raise UsageError(f"{place}: {choices('format', name, request_log.FORMATS)}")
    return name


def exporter() -> str:
    """The exporter of spans that OpenTelemetry's variables name; empty if they name none. Raises UsageError."""
    default = "otlp" if any(os.environ.get(name) for name in OTLP_VARIABLES) else "none"
    name = os.environ.get("OTEL_TRACES_EXPORTER") or default
    if name == "none" or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return ""
    spans.require_exporter(name)
    return name


def keys_for(host: str, path: Path | None, without: bool) -> Keys:
    """The keys of a service at `host`: those of the file, else those of the variable BERTLINE_KEYS, else none.

    Raises UsageError if there are none and other machines could ask, unless `without` is set.
    """
    if path:
        return Keys.read(path)
    if text := os.environ.get(VARIABLE):
        return Keys.parse(text.replace(";", "\n").splitlines(), VARIABLE)
    if not (without or host in LOOPBACK):
        raise UsageError(f"--host {host}: {WITHOUT_KEY}")
    return Keys()


def _require_keys(address: str, settings: Settings) -> None:
    """Raise UsageError if the proxy of a running Ray Serve lets other machines ask a service for this one alone."""
    if settings.hosts == LOOPBACK and urlsplit(address).hostname not in LOOPBACK:
        raise UsageError(f"{address}, where Ray Serve runs in this cluster: {WITHOUT_KEY}")


def ask(address: str, path: str, body: dict[str, Any] | None = None, seconds: float = 60) -> dict[str, Any]:
    """Send one request with JSON, a POST if it has a body. Raises InputError if the service answers with an error."""
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(address + path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise InputError(f"{address}{path}: {error.code}: {error.read().decode()[:300]}") from None


def _listener(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises InputError if none can."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        raise InputError(f"{host}:{port}: no service can listen there ({error})") from None
    return listener


def require_free(host: str, port: int) -> None:
    """Raise InputError if nothing could listen there."""
    _listener(host, port).close()


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
