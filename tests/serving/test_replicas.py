"""Replicas behind HAProxy: what other machines reach, a canary from the config, one that is killed, and their end."""

import json
import socket
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

from pipelines.core.errors import InputError, UsageError
from pipelines.core.ports import free_port
from pipelines.serving import haproxy, listeners, rollouts
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.model_sources import Source
from pipelines.tracking import registry
from tests.support import forked, half_sent, raw_http, tiny
from tests.support.places import CODE, ROOT

BODY = b'{"rows": [{"text": "x"}]}'
CLIENTS = 4
GONE = json.dumps({"detail": haproxy.UNREACHABLE}).encode()


@pytest.fixture
def other(version: registry.Version, checkout: Path) -> registry.Version:
    """A second version of `tiny`, which is not the champion."""
    return registry.register("tiny", tiny.classifier(checkout / "other", seed=9), CODE, "single", {"text": "x"}, {})


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_replicas_from_their_start_to_their_end(
    other: registry.Version, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One port is open, a canary comes from the config, a killed replica is replaced, and SIGTERM loses no request."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (checkout / "params.yaml").write_text(tiny.PARAMS)
    port = free_port()
    words = ["--host", "0.0.0.0", "--open", "--canary", "tiny@challenger:0.5", "--log-format", "off"]
    with forked.started("flows.cli", "serve", "tiny", "--ray", "--port", str(port), *words) as process:
        process.until(lambda: "Ctrl-C" in process.printed())
        address = f"http://127.0.0.1:{port}"
        _check_that_one_port_is_open(process.pid, port)
        assert "other machines reach" not in process.said()
        versions = Counter(raw_http.post(address, "/predict", BODY).json()["version"] for _ in range(60))
        assert versions.keys() == {1, 2}, "once in 2**59 runs all go to one"
        _check_that_a_killed_replica_is_replaced(process.pid, address)
        canary = raw_http.get(address, "/models/tiny").json()["canary"]
        assert (canary["version"], canary["share"]) == (2, 0.5), "the new replica has it too"
        half_sent.check_sigterm(process, port, replicas=True)


def _check_that_one_port_is_open(pid: int, port: int) -> None:
    """HAProxy alone listens to other machines, once, of the service and all processes that it started."""
    listening: set[tuple[str, str, int]] = set()
    proxy = ("haproxy", "0.0.0.0", port)
    deadline = time.monotonic() + 60
    while proxy not in listening and time.monotonic() < deadline:  # HAProxy may be replaced just now
        listening = listeners.of(psutil.Process(pid))
    assert len(listening) > 3
    assert [listener for listener in listening if not listeners.is_loopback(listener[1])] == [proxy]


def _check_that_a_killed_replica_is_replaced(pid: int, address: str) -> None:
    """Requests fail in the service's own shape, or lose their connection, until there is a new replica."""
    (replica,) = [p for p in psutil.Process(pid).children(recursive=True) if "ServeReplica" in " ".join(p.cmdline())]
    answers: list[raw_http.Answer] = []
    is_back = threading.Event()

    def ask() -> None:
        while not is_back.is_set():
            with suppress(OSError):  # a closed connection; or a busy machine takes over a minute to start a replica
                answers.append(raw_http.post(address, "/predict", BODY))
            is_back.wait(0.05)

    clients = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    time.sleep(0.5)
    replica.kill()
    replica.wait()
    before, deadline = len(answers), time.monotonic() + 300
    while not any(answer.status == 200 for answer in answers[before + CLIENTS :]) and time.monotonic() < deadline:
        time.sleep(0.1)
    is_back.set()
    for client in clients:
        client.join()
    assert before, "the replica answered before"
    assert answers[-1].status == 200
    failed = [answer for answer in answers if answer.status != 200]
    assert {answer.status for answer in failed} <= {502, 503, 504}
    assert {answer.body for answer in failed} <= {GONE}


def test_what_other_machines_reach_is_named() -> None:
    with closing(socket.socket()) as service, closing(socket.socket()) as open_one, closing(socket.socket()) as local:
        for one, host in ((service, "0.0.0.0"), (open_one, "0.0.0.0"), (local, "127.0.0.1")):
            one.bind((host, 0))
            one.listen()
        named = listeners.reachable(service.getsockname()[1])
        assert f"at 0.0.0.0:{open_one.getsockname()[1]}" in " ".join(named)
        assert not any(str(one.getsockname()[1]) in " ".join(named) for one in (service, local))
    assert listeners.is_loopback("::ffff:127.0.0.1")
    assert not listeners.is_loopback("::")


@pytest.mark.slow
def test_a_config_begins_and_ends_canaries_and_shadows(
    other: registry.Version, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTLINE_QUIET", "")
    served = {"tiny": Source("tiny")}
    with closing(Catalogue(changeable=False)) as catalogue:
        catalogue.serve(served)
        rollouts.settle(catalogue, served, ["tiny@2:0.25"], ["tiny@2"])
        canary, shadow = catalogue["tiny"].canary, catalogue["tiny"].shadow
        assert canary
        assert shadow
        assert (canary.model.version.version, canary.share, shadow.share) == (2, 0.25, 1.0)
        rollouts.settle(catalogue, served, ["tiny@2:0.25"], [])
        assert (catalogue["tiny"].canary, catalogue["tiny"].shadow) == (canary, None), "it goes on, with its counts"
        rollouts.settle(catalogue, served, ["tiny@2:0.5"], [])
        changed = catalogue["tiny"].canary
        assert changed
        assert changed.share == 0.5
        rollouts.settle(catalogue, served, ["tiny@7"], [])
        assert catalogue["tiny"].canary is None
        assert "tiny has no canary: " in capsys.readouterr().err
        with pytest.raises(InputError, match="this service runs as replicas"):
            catalogue.require_changeable()  # as a request does
        with pytest.raises(UsageError, match="canary: tiny@challenger is an alias"):
            rollouts.settle(catalogue, served, ["tiny@challenger"], [])
