"""Promotions and rollbacks at once, and killed: the ledger stays ordered and complete."""

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import mlflow
import pytest

from pipelines.tracking import ledger, registry, store
from tests.support import ledgers, postgres, servers, tiny
from tests.support.places import CODE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
KILLS = int(os.environ.get("BERTLINE_KILLS", "5"))  # of each action
WRITERS, EACH = 4, 25
EXAMPLE = {"text": "犬"}
FORKS = multiprocessing.get_context("forkserver")


@pytest.fixture
def server(checkout: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[servers.Mlflow]:
    """A server, over SQLite unless the test names PostgreSQL, with four versions of `m`, none of which is champion."""
    FORKS.set_forkserver_preload(["pipelines.tracking.registry", "mlflow.pyfunc"])
    with ExitStack() as stack:
        over = getattr(request, "param", "sqlite")
        database = "" if over == "sqlite" else stack.enter_context(postgres.postgres()).database("mlflow")
        running = stack.enter_context(servers.mlflow(checkout / "server", database=database))
        monkeypatch.setenv("MLFLOW_TRACKING_URI", running.address)
        ledgers.register_versions()
        yield running
    mlflow.set_tracking_uri(None)


on_both = pytest.mark.parametrize("server", ["sqlite", pytest.param("postgres", marks=postgres.needed)], indirect=True)


def move_in(folder: str, address: str) -> None:
    """A forked process has the environment and the folder of the test that forked first."""
    os.chdir(folder)
    os.environ["MLFLOW_TRACKING_URI"] = address


def changes(seed: int) -> int:
    """How many of EACH changes counted."""
    os.environ["BERTLINE_ACTOR"] = f"writer {seed}"
    draw = random.Random(seed)
    return sum(ledgers.change(draw) for _ in range(EACH))


@on_both
def test_changes_at_once_have_one_order(server: servers.Mlflow) -> None:
    with FORKS.Pool(WRITERS, move_in, (os.getcwd(), server.address)) as pool:
        counted = pool.map(changes, range(WRITERS), chunksize=1)
    state = ledgers.require_order(sum(counted))
    assert len(state.entries) + len(state.overtaken) == WRITERS * EACH
    assert state.overtaken  # they did meet


def register_same(number: int) -> int:
    return registry.register("m", Path("model"), CODE, "single", EXAMPLE, {"run": "m", "md5": "one"}).version


@on_both
def test_the_same_model_registered_at_once_is_one_version(server: servers.Mlflow, checkout: Path) -> None:
    tiny.classifier(checkout / "model")
    with FORKS.Pool(3, move_in, (os.getcwd(), server.address)) as pool:
        said = pool.map(register_same, range(3), chunksize=1)
    (found,) = [each for each in store.connect().search_model_versions("name='m'") if "md5" in each.tags]
    assert said == [int(found.version)] * 3
    assert registry.get("m", "challenger").version == int(found.version)


def forked(action: str, seed: int, begun: Any, folder: str, address: str) -> None:
    move_in(folder, address)
    begun.set()
    act(action, seed)


def act(action: str, seed: int) -> None:
    if action == "register":
        registry.register("m", Path("model"), CODE, "single", EXAMPLE, {"run": "m", "md5": f"of {seed}"})
    else:
        known = ledger.read("m")
        other = 1 + (known.champion or 0) % 4
        if action == "rollback" and len(known.champions) > 1:
            ledger.append("m", known, "rollback", known.champions[-2], "a test")
        else:
            ledger.append("m", known, "promote", other, "a test")


@pytest.mark.parametrize(("action", "seconds"), [("promote", 0.15), ("rollback", 0.15), ("register", 2.5)])
def test_killed_at_any_moment(server: servers.Mlflow, checkout: Path, action: str, seconds: float) -> None:
    if action == "register":
        tiny.classifier(checkout / "model")
    draw, killed, entries = random.Random(action), 0, 0
    for seed in range(KILLS):
        begun = FORKS.Event()
        process = FORKS.Process(target=forked, args=(action, seed, begun, os.getcwd(), server.address))
        process.start()
        assert begun.wait(60)
        time.sleep(draw.uniform(0, seconds))
        process.kill()
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL)
        killed += process.exitcode != 0
        state = ledgers.require_order()
        assert len(state.entries) - entries in (0, 1)
        entries = len(state.entries)
        for version in store.connect().search_model_versions("name='m'"):
            if int(version.version) > 4:  # registered by `register`: it is whole, or it is not there
                assert version.tags["md5"].startswith("of ")
                folder = registry.folder(registry.version("m", int(version.version)))
                assert (folder / "model.safetensors").is_file()
        act(action, seed)  # the next command goes on
        entries += action != "register"
        ledgers.require_order(entries)
    assert killed
    found = [version.tags.get("md5", "") for version in store.connect().search_model_versions("name='m'")]
    of_seeds = sorted(md5 for md5 in found if md5)
    assert of_seeds == (sorted(f"of {seed}" for seed in range(KILLS)) if action == "register" else [])
