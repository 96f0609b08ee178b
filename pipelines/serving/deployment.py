"""The application on a Ray of this process."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from pipelines.core.errors import InputError
from pipelines.tracking import store
from pipelines.training import workers

NAME = "bertline"  # of the application
# how long Serve's proxy may take to start; after Serve's own 5 s, too few on a busy machine, it kills the proxy
READY = ("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "60")


@contextmanager
def started(host: str, port: int) -> Iterator[str]:
    """Ray and its HTTP proxy, with no model yet; yields the proxy's address. A Ray that runs already is left running.

    That address is host:port, but for a cluster in which Serve answers already: it goes on where it does.

    Raises:
        InputError: a model is served in this cluster already.
    """
    os.environ.setdefault(*READY)  # Serve's controller inherits it from the Ray that is started here
    environment = workers.runtime_environment()
    if store.uri() == store.shown():  # replicas have another working folder; an address with a password they inherit
        environment["env_vars"].setdefault("MLFLOW_TRACKING_URI", store.uri())
    ours = workers.start(runtime_env=environment, log_to_driver=False, logging_level=logging.ERROR)
    import ray
    from ray import serve

    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    running = not ours and bool(serve.status().proxies)  # in a cluster others may answer by Serve
    if running and NAME in serve.status().applications:
        raise InputError(f"RAY_ADDRESS={workers.address()}: a model is served in this cluster already; stop it first")
    try:
        yield _proxy_on(host, port)
    finally:
        if ours:
            ray.shutdown()  # the whole of it, Serve with it
        else:
            drain()
            if not (running or serve.status().applications):  # others may have come since
                serve.shutdown()


def _proxy_on(host: str, port: int) -> str:
    """Start Serve's proxy unless there is one; returns its address."""
    from ray import serve

    serve.start(http_options={"host": host, "port": port, "request_timeout_s": 60})
    client = serve.context._get_global_client()
    assert client, "it was started"
    own = client.http_config  # a proxy that runs keeps its options: Serve logs that, and tells nobody else
    return f"http://{own.host}:{own.port}"


def drain() -> None:
    """Take the application away: Serve refuses new requests, and waits for those in flight, 20 s at most."""
    from ray import serve

    serve.delete(NAME)


def run(arguments: dict[str, str]) -> None:
    """Let `pipelines.serving.app` answer where Serve is started."""
    from ray import serve

    from pipelines.serving.app import app

    serve.run(app(arguments), name=NAME, route_prefix="/")
