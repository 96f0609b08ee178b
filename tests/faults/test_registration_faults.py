"""The artefact store is full or gone during a registration: one line of error, and no incomplete version."""

import os
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import mlflow
import pytest

from pipelines.core.errors import InputError
from pipelines.tracking import ledger, registry
from tests.support import disks, servers, stores, tiny
from tests.support.places import CODE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ROUNDS = (int(os.environ.get("BERTLINE_KILLS", "5")) + 1) // 2  # in soak tests
MOST = 20  # the most attempts until a fault interrupts a registration
ROOM = 64 * 2**20  # bytes


def register(md5: str) -> registry.Version:
    return registry.register("m", Path("model"), CODE, "single", {"text": "犬"}, {"run": "m", "md5": md5})


def require_whole(version: registry.Version) -> None:
    assert registry.get("m", "challenger") == version
    weights = registry.folder(version) / "model.safetensors"
    assert weights.read_bytes() == Path("model/model.safetensors").read_bytes()


def fill(place: Path, leave: int) -> Path:
    """Fill the disk but for `leave` bytes; returns the file that fills it."""
    ballast = place / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(bytes(2**16)):
            pass
    os.truncate(ballast, ballast.stat().st_size - leave)
    return ballast


class Fault(NamedTuple):
    strike: Callable[[], object]
    mend: Callable[[], object]


@pytest.fixture(scope="module")
def over_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[servers.Mlflow, servers.S3]]:
    """A server whose artefacts are in S3, for all tests of the file."""
    place = tmp_path_factory.mktemp("servers")
    with servers.s3(place / "s3") as s3:
        server = stores.server(place / "server", artifacts=f"s3://{servers.BUCKET}", **s3.for_mlflow())
        with servers.running(server):
            yield server, s3


@pytest.fixture
def fault(checkout: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Fault]:
    """A model folder and a store; yields functions that break and mend the store."""
    tiny.classifier(checkout / "model")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with ExitStack() as stack:
        if request.param == "s3":
            server, s3 = request.getfixturevalue("over_s3")
            monkeypatch.setenv("MLFLOW_TRACKING_URI", server.address)
            stores.forget_models()
            yield Fault(s3.kill, s3.start)
        else:
            here = request.param == "disk"
            place = checkout / ("state/mlflow/artifacts" if here else "artefacts")
            disk = stack.enter_context(disks.small(place, ROOM))
            if here:
                stores.place_in(checkout)
            else:
                server = stores.server(checkout / "server", artifacts=str(disk))
                monkeypatch.setenv("MLFLOW_TRACKING_URI", stack.enter_context(servers.running(server)).address)
            yield Fault(lambda: fill(disk, 2**15), (disk / "ballast").unlink)
    mlflow.set_tracking_uri(None)


@pytest.mark.parametrize("fault", ["disk", "disk of a server", "s3"], indirect=True)
def test_a_store_that_refuses_writes_fails_in_one_sentence(fault: Fault) -> None:
    first = register("first")
    require_whole(first)
    ledger.append("m", ledger.read("m"), "promote", first.version, "a test")
    fault.strike()
    with pytest.raises(InputError, match="m: no version is registered at ") as refused:
        register("second")
    assert "\n" not in str(refused.value)
    assert registry.versions() == [first]
    assert registry.get("m", "challenger") == registry.get("m", "champion") == first
    fault.mend()
    second = register("second")
    assert second.version == 2
    require_whole(second)
    assert registry.get("m", "champion") == first


@pytest.mark.parametrize("rounds", [1, pytest.param(ROUNDS, marks=pytest.mark.soak)])
@pytest.mark.parametrize("fault", ["s3"], indirect=True)
def test_s3_ending_during_a_registration_leaves_no_half_version(fault: Fault, rounds: int) -> None:
    """moto loses its objects when it ends, so versions that were complete before are not checked."""
    draw, failed, number = random.Random(1), 0, 0
    while number < rounds or not failed:
        number += 1
        assert number < MOST, "no registration was cut off"
        before = len(registry.versions())
        with ThreadPoolExecutor(1) as beside:
            striking = beside.submit(lambda: (time.sleep(draw.uniform(0, 2)), fault.strike()))
            message = ""
            try:
                register(f"of {number}")
            except InputError as error:
                message = str(error)
            striking.result()
        assert "\n" not in message
        assert len(registry.versions()) == before + (not message)
        failed += bool(message)
        fault.mend()
        require_whole(register(f"of {number}, again"))
