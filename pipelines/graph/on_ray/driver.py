"""Ray's driver, a process of the executor: it reserves places for stages on nodes, and runs them there.

A place is a Ray actor with the resources that the stage requires. When this process ends, even by a kill, Ray ends the
actors, and with them the stages (node_command.py).
"""

import os
import sys
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from secrets import token_hex
from socket import gethostname
from typing import Any

from pipelines.core.errors import InputError, one_line
from pipelines.graph import local_resources
from pipelines.graph.forkserver import Command, Ended
from pipelines.graph.on_ray import node_command
from pipelines.graph.on_ray.client import Drop, Gone, Lost, Reserve, Reserved, ResourceRequest, StageRefusal, lacking
from pipelines.training import workers

TICK_SECONDS = 0.1
LOOK_SECONDS = 2  # between two checks of the nodes
PATIENCE_SECONDS = 20  # to wait for a node that can take a stage: one may just be starting
LEAVING_SECONDS = 10
MARK = Path("state/run/checkout")  # a new text in each run; a node that reads the same text shares this checkout


class Place:
    """The Ray actor that runs one stage on a node."""

    def __init__(self, root: str, mark: str, cpus: int, gpus: float, joins: bool) -> None:
        self.root, self.mark, self.cpus, self.gpus, self.joins = root, mark, cpus, gpus, joins

    def node(self) -> str:
        """Ray's id of the node. Raises InputError if the node does not share the checkout."""
        import ray

        there = Path(self.root) / MARK
        try:
            shared = there.read_text(encoding="utf-8") == self.mark
        except OSError:
            shared = False
        if not shared:
            raise InputError(f"the node {gethostname()} does not share this checkout, {self.root}; see docs/cluster.md")
        return str(ray.get_runtime_context().get_node_id())

    def run(self, command: Command) -> int:
        """Run the stage; returns its exit status."""
        import ray

        cluster = ray.get_runtime_context().gcs_address if self.joins else ""
        environment = node_command.environment(dict(os.environ), command.environment, self.cpus, self.gpus, cluster)
        os.chdir(self.root)
        return node_command.run(command.elsewhere(environment))


@dataclass
class Reservation:
    """A place that is reserved, or still requested.

    Attributes:
        waits_for: Ray's handle of the next result: first the node, then the exit status. None while none is pending.
        node: Ray's id of the node; "" until there is one.
        runs: whether the stage's command was sent.
        without_node: the time since which no node of the cluster can take it; 0 while one can.
    """

    request: ResourceRequest
    actor: Any
    waits_for: Any
    node: str = ""
    runs: bool = False
    without_node: float = 0


@dataclass
class Driver:
    """The driver's loop; the executor is at the other end of the pipe."""

    pipe: Connection
    mark: str = field(default_factory=lambda: token_hex(8))
    places: dict[str, Reservation] = field(default_factory=dict)
    ending: dict[str, str] = field(default_factory=dict)  # stages whose place was lost, and why
    looked: float = 0

    def serve(self) -> None:
        """Serve the executor's messages until it closes the pipe."""
        MARK.parent.mkdir(parents=True, exist_ok=True)
        MARK.write_text(self.mark, encoding="utf-8")
        try:
            while True:
                self._look_at_places()
                self._look_at_nodes()
                for name in [name for name in self.ending if not node_command.holder(name)]:
                    self.pipe.send(Lost(name, self.ending.pop(name)))
                reserving = any(place.waits_for is not None for place in self.places.values())
                while wait([self.pipe], 0 if reserving else TICK_SECONDS):
                    self._do(self.pipe.recv())
        except (EOFError, BrokenPipeError, ConnectionResetError):
            pass  # the executor has ended
        went = [name for name, place in self.places.items() if place.runs]
        for name in list(self.places):
            self._give_back(name)
        until = time.monotonic() + LEAVING_SECONDS
        while time.monotonic() < until and any(map(node_command.holder, went)):
            time.sleep(TICK_SECONDS)

    def _do(self, what: Reserve | Command | Drop) -> None:
        if isinstance(what, Reserve):
            self._reserve(what.name, what.request)
        elif isinstance(what, Drop):
            self.ending.pop(what.name, None)
            if what.name in self.places:
                self._give_back(what.name)
        elif place := self.places.get(what.name):  # otherwise the place was lost in the meantime
            place.waits_for, place.runs = place.actor.run.remote(what), True

    def _reserve(self, name: str, request: ResourceRequest) -> None:
        import ray

        amounts = request.on(_nodes())
        cpus = int(amounts["CPU"])
        memory = request.memory_bytes or None
        options = {"num_cpus": cpus, "num_gpus": request.gpus, "memory": memory, "max_restarts": 0}
        remote: Any = ray.remote(Place).options(**options)
        actor = remote.remote(os.getcwd(), self.mark, cpus, request.gpus, request.joins)
        self.places[name] = Reservation(request, actor, actor.node.remote())
        self.looked = 0

    def _give_back(self, name: str) -> Reservation:
        import ray

        place = self.places.pop(name)
        ray.kill(place.actor)
        return place

    def _look_at_places(self) -> None:
        """Report the results of the places to the executor."""
        import ray

        answers = {place.waits_for: name for name, place in self.places.items() if place.waits_for is not None}
        if not answers:
            return
        ready, _ = ray.wait(list(answers), num_returns=len(answers), timeout=TICK_SECONDS)
        for answer in ready:
            name = answers[answer]
            place = self.places[name]
            place.waits_for = None
            try:
                result = ray.get(answer)
            except InputError as error:
                self._give_back(name)
                self.pipe.send(StageRefusal(name, one_line(getattr(error, "cause", error), 400)))
            except ray.exceptions.RayActorError as error:
                self._give_back(name)
                self.ending[name] = _reason(place.node, error)
            except ray.exceptions.RayError as error:
                self._give_back(name)
                self.pipe.send(StageRefusal(name, one_line(error, 400)))
            else:
                if place.runs:
                    self._give_back(name)
                    self.pipe.send(Ended(name, result))
                else:
                    place.node = result
                    self.pipe.send(Reserved(name, _address(result)))

    def _look_at_nodes(self) -> None:
        """Refuse stages that no node can take; Ray itself would wait for ever."""
        waiting = {name: place for name, place in self.places.items() if not place.node}
        now = time.monotonic()
        if not waiting or now - self.looked < LOOK_SECONDS:
            return
        self.looked, nodes = now, _nodes()
        for name, place in waiting.items():
            if not (why := lacking(place.request, nodes)):
                place.without_node = 0
            elif not place.without_node:
                place.without_node = now
            elif now - place.without_node > PATIENCE_SECONDS:
                self._give_back(name)
                self.pipe.send(StageRefusal(name, why))


def _nodes() -> list[dict[str, float]]:
    """The resources of each node that is alive."""
    import ray

    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _address(node: str) -> str:
    """The address of a node, dead or alive; its id if Ray does not know it."""
    import ray

    return next((ray_node["NodeManagerAddress"] for ray_node in ray.nodes() if ray_node["NodeID"] == node), node)


def _reason(node: str, error: Exception) -> str:
    """The reason why a place was lost."""
    import ray

    if not node:
        return f"Ray could not start a process for it ({one_line(error, 400)})"
    alive = any(ray_node["Alive"] for ray_node in ray.nodes() if ray_node["NodeID"] == node)
    return f"its process on the node {_address(node)} died" if alive else f"the node {_address(node)} died"


def main(pipe: int) -> None:
    """Start Ray or join the cluster, and serve the executor until it ends."""
    connection = Connection(pipe)
    options = {"num_cpus": local_resources.cores()} if workers.address() == "local" else {}
    try:
        workers.start(log_to_driver=False, **options)
    except InputError as error:
        connection.send(Gone(str(error)))
        sys.exit(1)
    import ray

    try:
        Driver(connection).serve()
    finally:
        ray.shutdown()
