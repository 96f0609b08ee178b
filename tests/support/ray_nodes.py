"""Nodes of a Ray cluster on this machine, started by `ray start` as on several machines, each with its own address."""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from pipelines.core.ports import free_port
from pipelines.training import workers

RAY = [str(Path(sys.executable).parent / "ray"), "start", "--block", "--disable-usage-stats", "--num-cpus=1"]
# no autoscaler, and nobody reads what workers print
SMALL = [
    "--object-store-memory=100000000",
    "--dashboard-agent-listen-port=0",
    "--no-monitor",
    "--include-log-monitor=false",
]
SETTINGS = {
    "RAY_AUTH_MODE": "disabled",  # a head would use the token of an earlier Ray of this user
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_failure_threshold": "3",
    workers.LOOPBACK: "1",  # a local Ray in this process may have limited Ray to loopback, and then no cluster works
}
SECOND = "127.0.0.2"  # the second node's address; with the same one, a driver might join that node instead of the head


@dataclass
class Cluster:
    """A head node and other started nodes; `session` is the folder of their files."""

    session: str
    port: int = field(default_factory=free_port)
    nodes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """The output of `ray start`."""
        return Path(self.session, "nodes.log")

    def head(self, *options: str) -> None:
        """Start the head, by default with the options of docs/cluster.md, and wait until it listens."""
        self._start(*(options or ("--head", f"--port={self.port}")), "--include-dashboard=false")
        wait_until(lambda: listens("127.0.0.1", self.port), f"no head at {self.address}")

    def second(self, *options: str) -> subprocess.Popen[bytes]:
        """Start another node, and wait until it listens; it ends at once if the head is not ready yet."""
        for _ in range(10):
            node = self._start(*(options or (f"--address={self.address}",)), f"--node-ip-address={SECOND}")
            wait_until(partial(ended_or_listens, node), "no second node")
            if node.poll() is None:
                return node
            time.sleep(1)
        raise TimeoutError(f"no second node for {self.address}: {self.log.read_text()[-2000:]}")

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a node; its processes are children of this process."""
        command = [*RAY, *SMALL, f"--temp-dir={self.session}", *arguments]
        with self.log.open("ab") as log:
            self.nodes.append(subprocess.Popen(command, stdout=log, stderr=log))
        return self.nodes[-1]


def listens(address: str, port: int) -> bool:
    """Return whether a process listens at the address."""
    heard = [c.laddr for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN and c.laddr]
    return any((one.ip, one.port) in ((address, port), ("0.0.0.0", port), ("::", port)) for one in heard)


def ended_or_listens(node: subprocess.Popen[bytes]) -> bool:
    """Return whether a second node has ended, or one of its own processes listens at SECOND."""
    return node.poll() is not None or any(
        connection.laddr.ip == SECOND for process in family(node) for connection in listeners(process)
    )


def family(node: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The processes of a node."""
    return [psutil.Process(node.pid), *psutil.Process(node.pid).children(recursive=True)]


def listeners(process: psutil.Process) -> list[Any]:
    """The connections at which a process listens; none of one that has ended."""
    with suppress(psutil.Error):
        return [one for one in process.net_connections("tcp") if one.status == psutil.CONN_LISTEN and one.laddr]
    return []


def wait_until(true: Callable[[], bool], why: str) -> None:
    deadline = time.monotonic() + 120
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(why)
        time.sleep(0.2)


def kill(node: subprocess.Popen[bytes]) -> None:
    """Kill all processes of a node at once, as by a power failure."""
    for process in family(node):
        with suppress(psutil.NoSuchProcess):  # a child may have ended after its parent
            process.kill()
    node.wait()


@contextmanager
def started(head: bool = True) -> Iterator[Cluster]:
    """A cluster with only a head node, or with none yet. Its processes end with the block."""
    session = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # a short path, since sockets are in it
    cluster = Cluster(session)
    try:
        if head:
            cluster.head()
        yield cluster
    finally:
        for node in cluster.nodes:
            if node.poll() is None:
                kill(node)
        shutil.rmtree(session)
