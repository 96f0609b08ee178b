"""MLflow's server or its database is killed during promotions: the ledger stays ordered and complete."""

import os
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import mlflow
import pytest

from flows.promote import promote
from pipelines.core.errors import InputError
from pipelines.tracking import ledger
from tests.support import ledgers, postgres, servers, stores

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
ROUNDS = (int(os.environ.get("BERTLINE_KILLS", "5")) + 1) // 2  # in soak tests
MOST = 20  # the most attempts until a fault interrupts a promotion
PARAMS = """
evaluate: {m: {task: rows}}
promote: {m: {run: m, gate: off}}
"""
SECONDS = 0.8  # about the time of a few promotions
FAULTS = [
    "mlflow over sqlite",
    *(
        pytest.param(fault, marks=postgres.needed)
        for fault in ("mlflow over postgres", "postgres killed", "postgres stopped")
    ),
]


class Fault(NamedTuple):
    strike: Callable[[], None]
    mend: Callable[[], None]


@pytest.fixture(scope="module")
def over_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[servers.Mlflow, postgres.Postgres]]:
    """A server over PostgreSQL, for all tests of the file."""
    with postgres.postgres() as base:
        server = stores.server(tmp_path_factory.mktemp("server"), database=base.database("mlflow"))
        with servers.running(server):
            yield server, base


@pytest.fixture
def fault(checkout: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Fault]:
    """Servers with four versions of `m`; yields functions that kill and restart one of them."""
    (checkout / "params.yaml").write_text(PARAMS)
    with ExitStack() as stack:
        name = request.param
        if name == "mlflow over sqlite":
            server = stack.enter_context(servers.running(stores.server(checkout / "server")))
        else:
            server, base = request.getfixturevalue("over_postgres")
        monkeypatch.setenv("MLFLOW_TRACKING_URI", server.address)
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        stores.forget_models()
        ledgers.register_versions()
        if name.startswith("mlflow"):
            yield Fault(server.kill, server.start)
        else:
            yield Fault(base.kill if name == "postgres killed" else base.stop, base.start)
    mlflow.set_tracking_uri(None)


def promote_some(draw: random.Random) -> None:
    """Promote like `bertline promote m --version N`, but outside a flow run, so that no Prefect server is needed."""
    version = ledgers.other(draw, ledger.read("m").champion)
    assert promote.fn("m", version, reason="a test").promoted


@pytest.mark.parametrize("rounds", [1, pytest.param(ROUNDS, marks=pytest.mark.soak)])
@pytest.mark.parametrize("fault", FAULTS, indirect=True)
def test_a_server_ending_during_a_promotion_leaves_the_ledger_whole(fault: Fault, rounds: int) -> None:
    draw, failed, done_rounds = random.Random(1), 0, 0
    while done_rounds < rounds or not failed:
        done_rounds += 1
        assert done_rounds < MOST, "no promotion was cut off"
        entries = len(ledgers.require_order().entries)
        with ThreadPoolExecutor(1) as beside:
            striking = beside.submit(lambda: (time.sleep(draw.uniform(0, SECONDS)), fault.strike()))
            done, message = 0, ""
            try:
                while not striking.done():
                    promote_some(draw)
                    done += 1
            except InputError as error:
                message = str(error)
            striking.result()
        failed += bool(message)
        assert "\n" not in message
        with pytest.raises(InputError, match=r"MLflow's store does not answer at http.*"):
            ledger.read("m")
        fault.mend()
        promote_some(draw)  # the next command succeeds, and repairs the alias if needed
        state = ledger.read("m")
        assert ledgers.alias() == state.champion == state.entries[-1].event.version
        assert len(state.entries) - entries - 1 in (done, done + 1)  # the last may have been entered without an answer
