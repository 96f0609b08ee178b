"""The application on a Ray of this process."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from pipelines.tracking import store
from pipelines.training import workers

NAME = "bertline"  # of the application
# how long Serve's proxy may take to start; after Serve's own 5 s, too few on a busy machine, it kills the proxy
READY = ("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "60")


@contextmanager
def started(host: str, port: int) -> Iterator[None]:
    """Ray and its HTTP proxy on host:port, with no model yet. A Ray that runs already is used and left running."""
    os.environ.setdefault(*READY)  # Serve's controller inherits it from the Ray that is started here
    environment = workers.runtime_environment()
    environment["env_vars"].setdefault("MLFLOW_TRACKING_URI", store.uri())  # replicas have another working folder
    ours = workers.start(runtime_env=environment, log_to_driver=False, logging_level=logging.ERROR)
    import ray
    from ray import serve

    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    running = not ours and bool(serve.status().proxies)  # in a cluster others may answer by Serve
    try:
        serve.start(http_options={"host": host, "port": port, "request_timeout_s": 60})
        yield
    finally:
        if ours:
            ray.shutdown()  # the whole of it, Serve with it
        elif running:
            serve.delete(NAME)
        else:
            serve.shutdown()


def run(arguments: dict[str, str]) -> None:
    """Let `pipelines.serving.app` answer where Serve is started."""
    from ray import serve

    from pipelines.serving.app import app

    serve.run(app(arguments), name=NAME, route_prefix="/")
