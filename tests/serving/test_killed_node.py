"""Two nodes of a cluster with a replica each, behind HAProxy on the head: one node dies."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.core.ports import free_port
from pipelines.serving import ray_proxy
from pipelines.tracking import registry
from tests.support import ray_nodes, servers, steady_clients, tiny
from tests.support.places import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
# docker/serve.yaml has a proxy on each node; here both nodes are one machine, whose port one proxy can have
SERVE = """
import sys
from ray import serve
from pipelines.serving import ray_service
serve.start(proxy_location="HeadOnly", http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
options = {"num_replicas": 2, "max_replicas_per_node": 1, "user_config": {"model": "tiny"}}
serve.run(ray_service.Service.options(**options).bind(ray_service.Keys(), ()), name="bertline", route_prefix="/")
"""


def replicas(place: Path) -> list[str]:
    """The addresses of the replicas in HAProxy's configuration."""
    lines = [line.split() for file in place.glob("*/haproxy.cfg") for line in file.read_text().splitlines()]
    return sorted(words[2] for words in lines if words[:1] == ["server"] and words[1].startswith("SERVE_REPLICA"))


def test_a_killed_node_costs_a_client_two_requests_at_most(
    version: registry.Version, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkout / "params.yaml").write_text(tiny.PARAMS)
    port = free_port()
    for name, value in (ray_nodes.SETTINGS | {"PYTHONPATH": str(ROOT)}).items():
        monkeypatch.setenv(name, value)
    with ray_proxy.settings("127.0.0.1", port), ray_nodes.started(head=False) as cluster:
        place = Path(os.environ["RAY_SERVE_HAPROXY_SERVER_STATE_BASE"])
        cluster.head()
        second = cluster.second()
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)
        subprocess.run([sys.executable, "-c", SERVE, str(port)], check=True)
        servers.wait_until(lambda: len(replicas(place)) == 2, "HAProxy knows both replicas", 120)
        at_head, at_second = replicas(place)
        assert at_second.startswith(f"{ray_nodes.SECOND}:")
        with steady_clients.Clients(port, steady_clients.body("映画の公開日が決定")) as clients:
            clients.wait_for(10 * steady_clients.CLIENTS)
            ray_nodes.kill(second)
            servers.wait_until(lambda: replicas(place) == [at_head], "HAProxy forgets the replica", 120)
            clients.wait_for(10 * steady_clients.CLIENTS)
        clients.require_few_failures()
