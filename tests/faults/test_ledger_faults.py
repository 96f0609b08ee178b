"""Concurrent and killed promotions and rollbacks: the ledger stays ordered and complete."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import mlflow
import pytest

from flows import promote as flow
from flows.rollback import rollback
from pipelines.tracking import ledger, registry, store
from tests.support import ledgers, postgres, servers, stores, tiny
from tests.support.forked import FORKS
from tests.support.places import CODE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
KILLS = int(os.environ.get("BERTLINE_KILLS", "5"))  # kills of each action in soak tests
WRITERS = 4
EXAMPLE = {"text": "犬"}
PARAMS = """
evaluate: {m: {task: rows}}
promote: {m: {run: m, gate: off}}
"""
OPENED = (5, 6)  # versions with a model that can be opened, for tests of rollbacks


Running = Callable[[str], servers.Mlflow]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A function that returns the server over a kind of database, and starts it at the first call."""
    running_servers: dict[str, servers.Mlflow] = {}
    with ExitStack() as stack:

        def over(kind: str) -> servers.Mlflow:
            if kind not in running_servers:
                database = {} if kind == "sqlite" else {"database": over_postgres(stack)}
                server = stores.server(tmp_path_factory.mktemp("server"), **database)
                running_servers[kind] = stack.enter_context(servers.running(server))
            return running_servers[kind]

        yield over


def over_postgres(stack: ExitStack) -> str:
    return stack.enter_context(postgres.postgres()).database("mlflow")


@pytest.fixture
def server(
    running: Running, checkout: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[servers.Mlflow]:
    """A server, over SQLite unless the test names PostgreSQL, with four versions of `m` and no champion."""
    (checkout / "params.yaml").write_text(PARAMS)
    mlflow_server = running(getattr(request, "param", "sqlite"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_server.address)
    stores.forget_models()
    ledgers.register_versions()
    yield mlflow_server
    mlflow.set_tracking_uri(None)


on_both = pytest.mark.parametrize("server", ["sqlite", pytest.param("postgres", marks=postgres.needed)], indirect=True)


def move_in(folder: str, address: str) -> None:
    """Set the folder and the store: a forked process starts with those of the first test that forked."""
    os.chdir(folder)
    os.environ["MLFLOW_TRACKING_URI"] = address


def changes(seed: int, changes_each: int) -> int:
    """Make `each` random changes; returns how many counted."""
    os.environ["BERTLINE_ACTOR"] = f"writer {seed}"
    draw = random.Random(seed)
    return sum(ledgers.change(draw) for _ in range(changes_each))


@pytest.mark.parametrize("changes_each", [4, pytest.param(25, marks=pytest.mark.soak)])
@on_both
def test_concurrent_changes_have_one_order(server: servers.Mlflow, changes_each: int) -> None:
    """Repeat until two writers have met, so that few changes for each writer are enough."""
    counted = rounds = 0
    with FORKS.Pool(WRITERS, move_in, (os.getcwd(), server.address)) as pool:
        while not (rounds and ledgers.require_order(counted).overtaken):
            assert rounds < 20, "they never met"
            writers = [(WRITERS * rounds + number, changes_each) for number in range(WRITERS)]
            counted += sum(pool.starmap(changes, writers, chunksize=1))
            rounds += 1
    state = ledgers.require_order(counted)
    assert len(state.entries) + len(state.overtaken) == WRITERS * changes_each * rounds


def register_same(number: int) -> int:
    return registry.register("m", Path("model"), CODE, "single", EXAMPLE, {"run": "m", "md5": "one"}).version


@on_both
def test_two_concurrent_registrations_of_a_model_make_one_version(server: servers.Mlflow, checkout: Path) -> None:
    tiny.classifier(checkout / "model")
    with FORKS.Pool(2, move_in, (os.getcwd(), server.address)) as pool:
        numbers = pool.map(register_same, range(2), chunksize=1)
    (registered,) = [version for version in store.connect().search_model_versions("name='m'") if "md5" in version.tags]
    assert numbers == [int(registered.version)] * 2
    assert registry.get("m", "challenger").version == int(registered.version)


def forked(action: str, seed: int, begun: Any, folder: str, address: str) -> None:
    move_in(folder, address)
    begun.set()
    act(action, seed)


def act(action: str, seed: int) -> None:
    """Do what the command does, but outside a flow run, so that no Prefect server is needed."""
    if action == "register":
        registry.register("m", Path("model"), CODE, "single", EXAMPLE, {"run": "m", "md5": f"of {seed}"})
        return
    champion = ledger.champion("m") or 0
    if action == "promote":
        assert flow.promote.fn("m", 1 + champion % 4, reason="a test").promoted
    else:
        rollback("m", to=OPENED[champion == OPENED[0]], reason="a test")


def register_champions() -> None:
    """Register two versions that can be opened, and promote both."""
    for seed, number in enumerate(OPENED):
        act("register", seed)
        assert flow.promote.fn("m", number).promoted


class Killed(NamedTuple):
    """The result of an action in its own process."""

    seconds: float
    killed: bool


def run(action: str, seed: int, address: str, seconds: float | None) -> Killed:
    """Run an action in its own process; kill it after `seconds`, unless that is None."""
    begun = FORKS.Event()
    process = FORKS.Process(target=forked, args=(action, seed, begun, os.getcwd(), address))
    process.start()
    assert begun.wait(240)
    start = time.monotonic()
    process.join(seconds)
    process.kill()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return Killed(time.monotonic() - start, process.exitcode != 0)


@pytest.mark.parametrize("kills", [1, pytest.param(KILLS, marks=pytest.mark.soak)])
@pytest.mark.parametrize("action", ["promote", "rollback", "register"])
def test_a_change_killed_at_any_moment_leaves_the_ledger_whole(
    server: servers.Mlflow, checkout: Path, action: str, kills: int
) -> None:
    if action != "promote":
        tiny.classifier(checkout / "model")
    if action == "rollback":
        register_champions()
    draw, killed, seed = random.Random(action), 0, 100
    takes = run(action, seed, server.address, None).seconds
    entries = len(ledgers.require_order().entries)
    while killed < kills:
        seed += 1
        assert seed < 110 + 10 * kills, "it ends before it is killed"
        killed += run(action, seed, server.address, draw.uniform(0, takes)).killed
        state = ledgers.require_order(settled=False)
        assert len(state.entries) - entries in (0, 1)
        entries = len(state.entries)
        require_whole()
        act(action, seed)  # the next command succeeds
        entries += action != "register"
        ledgers.require_order(entries)
    digests = [version.tags.get("md5", "") for version in store.connect().search_model_versions("name='m'")]
    registered = {"promote": [], "rollback": range(2), "register": range(100, seed + 1)}[action]
    assert sorted(md5 for md5 in digests if md5) == sorted(f"of {seed}" for seed in registered)


def require_whole() -> None:
    """Assert that each version that `register` made is complete."""
    for version in store.connect().search_model_versions("name='m'"):
        if int(version.version) > len(ledgers.VERSIONS):
            assert version.tags["md5"].startswith("of ")
            folder = registry.folder(registry.version("m", int(version.version)))
            assert (folder / "model.safetensors").is_file()
