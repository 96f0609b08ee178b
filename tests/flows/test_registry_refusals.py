"""Refusals that the registry alone decides come without importing MLflow, in the words of the long way."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import mlflow
import pytest

import bertline
from pipelines.core.errors import InputError
from pipelines.lifecycle import promotion, registry_refusals
from pipelines.tracking import ledger, ledger_events, registry, registry_snapshot, store
from pipelines.tracking.ledger_events import Action, Event, Kept
from tests.support import commands, ledgers, servers, stores, users

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
PARAMS = """
prepare: {rows: {corpus: custom, source: x}}
encode: {rows: {task: rows, vocab: v, max_length: 16}}
finetune: {m: {data: rows, encoder: e}}
evaluate: {m: {task: rows}}
promote: {m: {run: m, gate: off}, none: {run: m}}
"""
PASSWORD = "the owner's password"
SCRIPT = (
    "import sys; sys.argv = ['bertline', *sys.argv[1:]]\n"
    "from flows.cli import main\n"
    "try: main()\n"
    "finally: print('imported:', 'mlflow' in sys.modules, 'prefect' in sys.modules)"
)


@pytest.fixture(scope="module")
def with_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Mlflow]:
    place = tmp_path_factory.mktemp("server")
    with servers.running(stores.server(place, *users.OPTIONS, **users.settings(place, PASSWORD))) as server:
        yield server


@pytest.fixture(params=["a file", "a server with users"])
def registered(request: pytest.FixtureRequest, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The model m with four versions and a ledger: 1 and 2 were champion, and 2 was rolled back."""
    (checkout / "params.yaml").write_text(PARAMS)
    if request.param == "a file":
        yield from _filled()
        return
    monkeypatch.setenv("MLFLOW_TRACKING_URI", request.getfixturevalue("with_users").address)
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "admin")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", PASSWORD)
    stores.forget_models()
    yield from _filled()


def _filled() -> Iterator[None]:
    ledgers.register_versions()
    store.connect().set_registered_model_alias("m", "challenger", "2")
    for action, number in (("promote", 1), ("promote", 2), ("rollback", 1)):
        ledger.append("m", ledger.read("m"), action, number, "a test")
    yield
    mlflow.set_tracking_uri(None)


def message(call: Callable[..., object], *arguments: object) -> str:
    with pytest.raises(InputError) as refused:
        call(*arguments)
    return str(refused.value)


def imported_by(line: str) -> str:
    """The line that a refused command prints of what it has imported."""
    command = [sys.executable, "-c", SCRIPT, *line.split()]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode in (1, 2), ended.stderr
    return ended.stdout


def after(*changes: tuple[Action, int, str]) -> ledger_events.State:
    """The state of a ledger of these events: action, version and actor."""
    rows: list[Kept] = []
    for action, number, actor in changes:
        known = ledger_events.replay(rows)
        event = Event(f"{len(rows)}", action, number, known.champion, *known.last, actor, f"to {number}")
        rows.append(Kept(len(rows) + 1, 1000, event.text()))
    return ledger_events.replay(rows)


PROMOTIONS: list[tuple[Action, int, str]] = [("promote", number, "ann") for number in (1, 2, 3)]


def test_a_version_that_a_rollback_made_champion_was_taken_back_by_the_next_one() -> None:
    state = after(*PROMOTIONS, ("rollback", 2, "ben"), ("rollback", 1, "eve"))
    assert "until eve rolled it back (to 1)" in registry_refusals.taken_back("m", 2, state)
    assert "until ben rolled it back (to 2)" in registry_refusals.taken_back("m", 3, state)
    assert not registry_refusals.taken_back("m", 1, state)


def test_a_version_behind_which_a_rollback_went_was_not_its_champion() -> None:
    state = after(*PROMOTIONS, ("rollback", 1, "bob"))
    assert "3 was champion until bob rolled it back (to 1)" in registry_refusals.taken_back("m", 3, state)
    behind = "2 was champion before {} rolled back behind it, to version 1 (to 1)"
    assert behind.format("bob") in registry_refusals.taken_back("m", 2, state)
    twice = after(*PROMOTIONS, ("promote", 4, "ann"), ("rollback", 3, "ben"), ("rollback", 1, "eve"))
    assert behind.format("eve") in registry_refusals.taken_back("m", 2, twice), "the first rollback left it"
    assert not registry_refusals.taken_back("m", 2, after(*PROMOTIONS, ("rollback", 2, "ben"), ("promote", 3, "ann")))


@pytest.mark.usefixtures("registered")
def test_the_short_way_has_the_words_of_the_long_one() -> None:
    long = promotion.unmeasured("m", None, None)
    short = registry_refusals.of_promotion("m", None, None)
    assert long
    assert short
    assert (short.promoted, short.reasons, short.champion) == (False, long.reasons, 1)
    assert short.reasons[0].startswith("refused: m version 2 was champion until ")
    assert registry_refusals.of_promotion("m", 1, None) == registry_refusals.Answer(True, ["nothing to do"], 1)
    assert registry_refusals.of_promotion("m", 3, None) is None  # has to be measured

    same = [
        (promotion.unmeasured, registry_refusals.of_promotion, ("m", 2, 2)),
        (promotion.unmeasured, registry_refusals.of_promotion, ("none", None, None)),
        (promotion.rollback, registry_refusals.of_rollback, ("m", None)),
        (promotion.rollback, registry_refusals.of_rollback, ("m", 1)),
        (promotion.rollback, registry_refusals.of_rollback, ("m", 4)),
        (promotion.rollback, registry_refusals.of_rollback, ("none", None)),
    ]
    client = store.connect()
    client.delete_registered_model_alias("m", "challenger")
    same.append((registry.get, registry_refusals.of_version, ("m", "challenger")))
    for slow, quick, arguments in same:
        assert message(quick, *arguments) == message(slow, *arguments)
    assert "no registered model 'none'; there are: m" in message(registry_refusals.of_rollback, "none", None)
    assert message(registry_refusals.of_version, "m", "9") == "m: no version '9'; there are: 1, 2, 3, 4"
    registry_refusals.of_version("m", "champion")
    registry_refusals.of_version("m", "4")


@pytest.mark.usefixtures("registered")
def test_what_is_not_in_order_takes_the_long_way() -> None:
    client = store.connect()
    client.delete_registered_model_alias("m", "champion")  # which the long way mends
    assert registry_refusals.of_promotion("m", 1, None) is None
    registry_refusals.of_rollback("m", 4)
    ledger.settle("m", ledger.read("m"))
    client.delete_model_version("m", "1")
    assert registry_refusals.of_promotion("m", None, None) is None
    client.delete_model_version("m.ledger", "3")
    registry_refusals.of_rollback("m", 4)


def test_a_store_that_is_read_otherwise_is_left_to_mlflow(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(checkout / "state/mlflow")
    for address in (
        "postgresql://127.0.0.1/x",
        "http://127.0.0.1:1",
        "http://",
        "databricks",
    ):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        assert registry_snapshot.read("m") is None
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:////no/such/file")
    assert registry_snapshot.read("m") == registry_snapshot.Snapshot()
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert registry_snapshot.read("m") == registry_snapshot.Snapshot()
    monkeypatch.setenv("MLFLOW_WORKSPACE", "other")
    assert registry_snapshot.read("m") is None
    assert not (checkout / "state/mlflow").exists()


def test_a_refusal_imports_neither_mlflow_nor_prefect_and_makes_no_store(checkout: Path) -> None:
    (checkout / "params.yaml").write_text(PARAMS)
    shutil.rmtree(checkout / "state/mlflow")
    lines = ("promote m", "rollback m", "promote other", "rollback m --to x", "promote m --instead-of", "history m")
    lines += (
        "versions m",
        "approve m",
        "lineage model m@champion",
        "predict m text",
        "serve m",
        "score m a.parquet b.parquet",
    )
    for line in lines:
        assert imported_by(line) == "imported: False False\n", line
    with pytest.raises(InputError, match="no model is registered in this checkout; `bertline retrain NAME`"):
        bertline.load("m@champion")
    assert not (checkout / "state/mlflow").exists()


@pytest.mark.usefixtures("registered")
def test_a_refusal_of_the_registry_imports_neither() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, "promote", "m", "--json"], capture_output=True, text=True, check=False
    )
    answer, _, imported = ended.stdout.partition("imported: ")
    assert (ended.returncode, imported) == (3, "False False\n")
    assert json.loads(answer)["champion"] == 1
    assert commands.bertline("rollback none").require(1).err.startswith("bertline: error: ")
    for line in ("predict m@other text", "serve m@9", "approve m --version 9", "lineage model m/9"):
        assert imported_by(line) == "imported: False False\n", line
