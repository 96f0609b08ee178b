"""Deploy the application with Ray Serve, on a new local Ray or in a running cluster."""

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from pipelines.core import addresses
from pipelines.core.errors import InputError, UsageError
from pipelines.core.progress import say
from pipelines.serving import certificates, listeners, ray_proxy
from pipelines.serving.certificates import OPTION, Certificate
from pipelines.serving.keys import Keys
from pipelines.tracking import store
from pipelines.training import workers

NAME = "bertline"  # the application's name in Serve
REQUEST_SECONDS = 60  # the application's own limit; behind HAProxy nothing else cuts a request off
# how long Serve's proxy may take to start; Serve's default of 5 s is too short on a busy machine
READY = ("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "60")


@contextmanager
def started(host: str, port: int, certificate: Certificate | None = None) -> Iterator[str]:
    """Start Ray and Serve's HTTP proxy, with no model yet; yields the proxy's address.

    The address is host:port. In a cluster where Serve runs already, it is that of the running proxy. A cluster that was
    running before is left running.

    Raises:
        InputError: a model is served in this cluster already, or there is a certificate, and no HAProxy to use it.
    """
    os.environ.setdefault(*READY)  # Serve's controller inherits it from the Ray that is started here
    environment = workers.runtime_environment()
    if addresses.may_be_sent(store.uri()):  # replicas run in another folder; they inherit one with a password
        environment["env_vars"].setdefault("MLFLOW_TRACKING_URI", store.uri())
    workers.settle()  # before Ray is imported
    with ExitStack() as ended:
        behind = _haproxy(ended, host, port, certificate)
        ours = workers.start(runtime_env=environment, log_to_driver=False, logging_level=logging.ERROR)
        import ray
        from ray import serve

        logging.getLogger("ray.serve").setLevel(logging.WARNING)
        running = not ours and bool(serve.status().proxies)  # others may use Serve in this cluster
        if running and NAME in serve.status().applications:
            raise InputError(f"RAY_ADDRESS={workers.address()}: this cluster already serves a model; stop it first")
        try:
            known = _serve_on("127.0.0.1", port, None) if behind else _serve_on(host, port, REQUEST_SECONDS)
            yield certificates.address(host, port, certificate) if behind else known
        finally:
            if ours:
                if behind:
                    serve.shutdown()  # HAProxy is a process that Ray does not know
                ray.shutdown()  # this stops Serve too
            else:
                drain()
                if not (running or serve.status().applications):  # other applications may have started since
                    serve.shutdown()


def _haproxy(ended: ExitStack, host: str, port: int, certificate: Certificate | None) -> bool:
    """Set the environment for HAProxy until `ended` closes; returns False, and says why, where it cannot be had.

    In a cluster, or a Ray that this process has started before, its own environment decides. Raises UsageError where a
    certificate could not be used.
    """
    import ray

    if workers.address() != "local" or ray.is_initialized():
        _require_no_certificate(certificate, "the proxies of a running Ray have their own settings")
        return False
    if reason := ray_proxy.unavailable():
        _require_no_certificate(certificate, f"Ray Serve's own proxy has no TLS, and there is no HAProxy: {reason}")
        say(f"Ray Serve's own proxy answers, which is slower than HAProxy: {reason}")
        return False
    ended.enter_context(ray_proxy.settings(host, port, certificate))
    return True


def _require_no_certificate(certificate: Certificate | None, why: str) -> None:
    """Raise UsageError if there is a certificate, which this service would not use."""
    if certificate:
        raise UsageError(f"{OPTION}: {why}; leave it out, and put a proxy with TLS in front, or serve without Ray")


def _serve_on(host: str, port: int, seconds: int | None) -> str:
    """Start Serve, which cuts requests off after `seconds`, unless it is there; returns the address of its proxy."""
    from ray import serve

    serve.start(http_options={"host": host, "port": port, "request_timeout_s": seconds})
    client = serve.context._get_global_client()
    assert client, "Serve was started, so it has a client"
    own = client.http_config  # a running proxy keeps its own options; Serve only logs this
    return f"http://{own.host}:{own.port}"


def drain() -> None:
    """Delete the application: Serve refuses new requests, and waits at most 20 s for those in flight."""
    from ray import serve

    serve.delete(NAME)


def run(config: dict[str, Any], keys: Keys, *about: Any) -> None:
    """Run `ray_service.deployed`, which takes these arguments, on the Serve that `started` has started."""
    from ray import serve

    from pipelines.serving.ray_service import deployed

    serve.run(deployed(config, keys, *about), name=NAME, route_prefix="/")


def warn_of_listeners(address: str) -> None:
    """Name each port that other machines reach, and that is not the service's own, if Ray runs on this machine."""
    if workers.address() == "local" and (open_ports := listeners.reachable(int(address.rpartition(":")[2]))):
        say(f"other machines reach more than {address}: {', '.join(open_ports)}")
