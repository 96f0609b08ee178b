"""Deploy the application with Ray Serve, on a new local Ray or in a running cluster."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pipelines.core.errors import InputError
from pipelines.serving.keys import Keys
from pipelines.tracking import store
from pipelines.training import workers

NAME = "bertline"  # the application's name in Serve
# how long Serve's proxy may take to start; Serve's default of 5 s is too short on a busy machine
READY = ("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "60")


@contextmanager
def started(host: str, port: int) -> Iterator[str]:
    """Start Ray and Serve's HTTP proxy, with no model yet; yields the proxy's address.

    The address is host:port. In a cluster where Serve runs already, it is that of the running proxy. A cluster that was
    running before is left running.

    Raises:
        InputError: a model is served in this cluster already.
    """
    os.environ.setdefault(*READY)  # Serve's controller inherits it from the Ray that is started here
    environment = workers.runtime_environment()
    if store.uri() == store.shown():  # replicas run in another folder; they inherit an address that has a password
        environment["env_vars"].setdefault("MLFLOW_TRACKING_URI", store.uri())
    ours = workers.start(runtime_env=environment, log_to_driver=False, logging_level=logging.ERROR)
    import ray
    from ray import serve

    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    running = not ours and bool(serve.status().proxies)  # others may use Serve in this cluster
    if running and NAME in serve.status().applications:
        raise InputError(f"RAY_ADDRESS={workers.address()}: this cluster already serves a model; stop it first")
    try:
        yield _proxy_on(host, port)
    finally:
        if ours:
            ray.shutdown()  # this stops Serve too
        else:
            drain()
            if not (running or serve.status().applications):  # other applications may have started since
                serve.shutdown()


def _proxy_on(host: str, port: int) -> str:
    """Start Serve's proxy unless there is one; returns its address."""
    from ray import serve

    serve.start(http_options={"host": host, "port": port, "request_timeout_s": 60})
    client = serve.context._get_global_client()
    assert client, "Serve was started, so it has a client"
    own = client.http_config  # a running proxy keeps its own options; Serve only logs this
    return f"http://{own.host}:{own.port}"


def drain() -> None:
    """Delete the application: Serve refuses new requests, and waits at most 20 s for those in flight."""
    from ray import serve

    serve.delete(NAME)


def run(config: dict[str, Any], keys: Keys, hosts: tuple[str, ...] = (), log_format: str = "off") -> None:
    """Run `pipelines.serving.ray_service` on the Serve that `started` has started."""
    from ray import serve

    from pipelines.serving.ray_service import deployed

    serve.run(deployed(config, keys, hosts, log_format), name=NAME, route_prefix="/")
