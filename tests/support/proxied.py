"""HAProxy with the configuration that Ray Serve writes, in front of replicas that a test has started."""

import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from ray.serve._private import haproxy as of_ray
from ray.serve.config import HTTPOptions

from pipelines.core.ports import free_port
from pipelines.serving import ray_proxy
from tests.support import servers


@contextmanager
def place() -> Iterator[Path]:
    """A folder with a short path, as sockets need one."""
    with tempfile.TemporaryDirectory(prefix="bertline-", dir="/tmp") as folder:
        yield Path(folder)


def written(folder: Path, port: int, replicas: list[int], **settings: Any) -> Path:
    """The configuration of Ray Serve for one application with replicas at these ports."""
    config = of_ray.HAProxyConfig(
        http_options=HTTPOptions(host="127.0.0.1", port=port),
        socket_path=str(folder / "admin.sock"),
        server_state_base=str(folder),
        server_state_file=str(folder / "state"),
        stats_port=free_port(),
        metrics_port=free_port(),
        metrics_enabled=False,
        has_received_routes=True,
        **settings,
    )
    behind = [of_ray.ServerConfig(f"replica-{at}", "127.0.0.1", at) for at in replicas]
    backend = of_ray.BackendConfig("http-bertline", "/", servers=behind, app_name="bertline")
    api = of_ray.HAProxyApi(config, {"http-bertline": backend}, str(folder / "haproxy.cfg"))
    api._generate_config_file_internal()
    return folder / "haproxy.cfg"


@contextmanager
def running(config: Path, port: int) -> Iterator[psutil.Process]:
    """`bertline-haproxy` as Ray Serve starts it."""
    with (config.parent / "log").open("wb") as log:
        process = psutil.Popen([ray_proxy.command(), "-db", "-f", str(config)], stdout=log, stderr=log)
    try:
        servers.wait_until(lambda: listens(port), "HAProxy listens", 30)
        yield process
    finally:
        process.kill()
        process.wait()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
