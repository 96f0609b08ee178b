"""Stages on the nodes of a Ray cluster: the executor's side.

It talks over a pipe to Ray's driver, a process of its own (driver.py). A stage is placed in two steps. First Ray
reserves the resources that the stage requires, as soon as a node has them. Only then does the executor check the files
that the stage reads, as it does for a stage on this machine, and send its command.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.core.progress import say
from pipelines.core.resources import Resources
from pipelines.graph.forkserver import Command, Ended
from pipelines.graph.on_ray import node_command

LOG = Path("state/run/ray.log")  # the output of Ray
# settings that are passed to a stage on a node; passwords are not: a stage needs none
PASSED = ("HF_HUB_OFFLINE", *(f"BERTLINE_{name}" for name in ("QUIET", "MIRROR", "OFFLINE", "STRICT", "BACKOFF")))
RESOURCE_WORDS = {"CPU": ("CPUs", "threads"), "GPU": ("GPUs", "gpus"), "memory": ("GB of memory", "memory_gb")}
LEAVING_SECONDS = 20  # for Ray to end the stages that it runs


class ResourceRequest(NamedTuple):
    """The resources that Ray reserves for a stage.

    Attributes:
        cpus: the number of CPUs; None for all CPUs of the node that has the most.
        joins: the stage trains with Ray Train on this cluster; its workers reserve their own resources.
    """

    cpus: int | None
    gpus: float
    memory_bytes: int
    joins: bool

    @classmethod
    def of(cls, needs: Resources) -> "ResourceRequest":
        if needs.workers:
            return cls(0, 0, 0, True)
        return cls(needs.threads or None, needs.gpus, int(needs.memory_gb * 1e9), False)

    def on(self, nodes: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """The request as Ray's resources; `nodes` are the resources of each node."""
        most = int(max((node.get("CPU", 0) for node in nodes), default=0))
        cpus = max(1, most) if self.cpus is None else self.cpus
        return {"CPU": cpus, "GPU": self.gpus, "memory": self.memory_bytes}


def lacking(request: ResourceRequest, nodes: Sequence[Mapping[str, float]]) -> str:
    """The reason why no node can ever take the stage, with the missing resource; "" if one can.

    Args:
        nodes: the resources of each node of the cluster, in use or not.
    """
    amounts = request.on(nodes)
    for name, amount in amounts.items():
        most = max((node.get(name, 0) for node in nodes), default=0)
        if amount > most:
            what, key = RESOURCE_WORDS[name]
            return (
                f"it requires {_amount(name, amount)} {what} (resources.{key}), and no node of the Ray cluster has "
                + (f"more than {_amount(name, most)}" if most else "any")
            )
    if any(all(node.get(name, 0) >= amount for name, amount in amounts.items()) for node in nodes):
        return ""
    every = ", ".join(f"{_amount(name, size)} {RESOURCE_WORDS[name][0]}" for name, size in amounts.items() if size)
    return f"it requires {every}, and no node of the Ray cluster has all of these"


def _amount(name: str, amount: float) -> str:
    return f"{amount / 1e9:.1f}" if name == "memory" else f"{amount:g}"


class Reserve(NamedTuple):
    """Message to the driver: reserve these resources for the stage."""

    name: str
    request: ResourceRequest


class Drop(NamedTuple):
    """Message to the driver: give back what was reserved for the stage, and end the stage if it runs."""

    name: str


class Reserved(NamedTuple):
    """Message from the driver: the stage may run, on the node with this address."""

    name: str
    node: str


class Lost(NamedTuple):
    """Message from the driver: the node or the process of the stage died, and nothing of the stage runs any more."""

    name: str
    why: str


class StageRefusal(NamedTuple):
    """Message from the driver: the stage cannot run."""

    name: str
    why: str


class Gone(NamedTuple):
    """Last message from the driver: Ray could not be reached, or has ended."""

    why: str


Event = Reserved | Lost | StageRefusal | Ended


class PlacedStages:
    """The executor's connection to the driver. Leaving the block ends the stages on nodes."""

    def __init__(self) -> None:
        self.waiting, self.running = dict[str, Resources](), dict[str, Resources]()
        self._lost, self._sent = dict[str, int](), set[str]()
        self._pipe: Any = None
        self._process: subprocess.Popen[bytes] | None = None
        self._gone = ""

    def __enter__(self) -> "PlacedStages":
        return self

    def __exit__(self, *_: object) -> None:
        if not self._process:
            return
        self._pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(LEAVING_SECONDS)
        self._process.kill()
        self._process.wait()
        for name in sorted(self._sent):
            if who := node_command.holder(name):
                say(f"{name}: may still run for a moment, as {who}")

    def reserve(self, name: str, needs: Resources) -> None:
        """Ask Ray for a place for the stage. The first call starts the driver."""
        self.waiting[name] = needs
        if self._process is None:
            self._pipe, other = Pipe()
            LOG.parent.mkdir(parents=True, exist_ok=True)
            call = [sys.executable, "-c", f"from pipelines.graph.on_ray import driver; driver.main({other.fileno()})"]
            with LOG.open("wb") as log:
                self._process = subprocess.Popen(
                    call,
                    pass_fds=[other.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            other.close()
        self._send(Reserve(name, ResourceRequest.of(needs)))

    def go(self, command: Command) -> None:
        """Run the stage at the place that was reserved for it."""
        self.running[command.name] = self.waiting.pop(command.name)
        self._sent.add(command.name)
        self._send(command.elsewhere(passed_on(os.environ) | command.environment))

    def drop(self, name: str) -> None:
        """Give the reserved place back."""
        del self.waiting[name]
        self._send(Drop(name))

    def events(self) -> list[Event]:
        """The events so far. A lost stage is reserved again, unless it was lost too often (resources.max_failures)."""
        events: list[Event] = []
        while self.pipe is not None:
            try:
                if not self.pipe.poll():
                    break
                event = self.pipe.recv()
            except (EOFError, OSError):
                event = Gone(f"the Ray driver or the Ray cluster has ended; see {LOG}, and run again")
            if isinstance(event, Gone):
                self._gone = event.why
            elif event.name in self.waiting or event.name in self.running:
                events.append(self._seen(event))
        if self._gone:
            events += [StageRefusal(name, self._gone) for name in (*self.waiting, *self.running)]
            self.waiting.clear()
            self.running.clear()
        return events

    @property
    def pipe(self) -> Any:
        """The pipe that events come from; None before the driver starts, and after it has gone."""
        return None if self._gone else self._pipe

    def _seen(self, event: Event) -> Event:
        if isinstance(event, Reserved):
            return event
        name = event.name
        needs = self.running.pop(name, None) or self.waiting.pop(name)
        if not isinstance(event, Lost):
            return event
        self._lost[name] = count = self._lost.get(name, 0) + 1
        if 0 <= needs.max_failures < count:
            return StageRefusal(name, f"{event.why}; lost {count} times, more than resources.max_failures")
        self.reserve(name, needs)
        return event

    def _send(self, what: Reserve | Command | Drop) -> None:
        with suppress(OSError):  # the driver has ended: `events` reports it
            self._pipe.send(what)


def passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of the executor's environment that a stage on a node gets."""
    return {name: environment[name] for name in PASSED if name in environment}
