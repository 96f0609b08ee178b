"""MLflow with users: who may write a model but not its ledger registers versions, and can promote none."""

from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest
from mlflow.server import get_app_client
from mlflow.server.auth.client import AuthServiceClient

from pipelines.core.errors import InputError
from pipelines.tracking import files, ledger, registry, store
from tests.support import servers, tiny, users
from tests.support.places import CODE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
OWNER, TRAINER = ("admin", "the owner's password"), ("trainer", "the trainer's password")
SECOND = ("second", "the other trainer's password")


def become(user: tuple[str, str], patch: pytest.MonkeyPatch) -> None:
    patch.setenv("MLFLOW_TRACKING_USERNAME", user[0])
    patch.setenv("MLFLOW_TRACKING_PASSWORD", user[1])


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Mlflow]:
    place = tmp_path_factory.mktemp("server")
    with servers.mlflow(place, *users.OPTIONS, **users.settings(place, OWNER[1])) as server:
        yield server


@pytest.fixture
def server(running: servers.Mlflow, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[servers.Mlflow]:
    """The server, whose client is the owner; each test has models and a trainer of its own."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", running.address)
    become(OWNER, monkeypatch)
    yield running
    mlflow.set_tracking_uri(None)


def register(folder: Path, md5: str) -> registry.Version:
    return registry.register("tiny", folder, CODE, "single", {"text": "犬"}, {"run": "tiny", "md5": md5})


def add(trainer: tuple[str, str], server: servers.Mlflow) -> AuthServiceClient:
    """A user who may log runs; returns what grants him more."""
    known = get_app_client("basic-auth", server.address)
    known.create_user(*trainer)
    experiment = store.connect().get_experiment_by_name(store.EXPERIMENT)
    known.grant_user_permission(trainer[0], "experiment", experiment.experiment_id, "EDIT")
    return known


def names() -> set[str]:
    return {each.name for each in store.connect().search_registered_models()}


def test_who_may_only_register_can_promote_nothing(
    server: servers.Mlflow, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny.classifier(checkout / "model")
    first = register(folder, "1")
    fetched = registry.folder(first)
    assert fetched.parts[:2] == files.HOME.parts
    created = fetched.stat().st_ino
    assert registry.folder(first).stat().st_ino == created, "a version is fetched once"
    assert {file.name for file in fetched.iterdir()} == {file.name for file in folder.iterdir()}
    assert registry.example(first) == [{"text": "犬"}]
    add(TRAINER, server).grant_user_permission(TRAINER[0], "registered_model", "tiny", "EDIT")

    become(TRAINER, monkeypatch)
    second = register(folder, "2")
    assert (second.version, registry.get("tiny", "challenger").version) == (2, 2)
    refused = r"promote of version 2 is not entered at .*: this user has no permission for"
    with pytest.raises(InputError, match=refused):  # before anything was promoted too
        ledger.append("tiny", ledger.read("tiny"), "promote", 2, "I want to")
    become(OWNER, monkeypatch)
    ledger.append("tiny", ledger.read("tiny"), "promote", first.version, "the first")
    become(TRAINER, monkeypatch)
    with pytest.raises(InputError, match=refused):
        ledger.append("tiny", ledger.read("tiny"), "promote", 2, "I want to")
    store.connect().set_registered_model_alias("tiny", "champion", "2")  # which decides nothing
    assert registry.get("tiny", "champion").version == first.version

    become(OWNER, monkeypatch)
    state = ledger.read("tiny")
    assert [entry.event.actor for entry in state.entries] == ["admin"]
    ledger.settle("tiny", state)
    assert store.connect().get_registered_model("tiny").aliases["champion"] == "1"
    with pytest.raises(InputError, match=r"MLflow's store does not answer"):
        become(("admin", "wrong"), monkeypatch)
        ledger.read("tiny")


def test_a_model_without_a_ledger_gets_one_from_its_owner_only(
    server: servers.Mlflow, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that was registered by hand, or by a version of before, which made the ledger at the first promotion."""
    folder, known, before = tiny.classifier(checkout / "model"), add(SECOND, server), names()
    store.connect().create_registered_model("bare")
    known.grant_user_permission(SECOND[0], "registered_model", "bare", "EDIT")
    become(SECOND, monkeypatch)
    store.connect().create_model_version("bare", "s3://nowhere/m", await_creation_for=0)
    with pytest.raises(InputError, match=r"no bare\.ledger, and only who owns bare may create it; ask its owner"):
        ledger.append("bare", ledger.read("bare"), "promote", 1, "I want to")
    assert names() - before == {"bare"}
    assert registry.register("own", folder, CODE, "single", {"text": "犬"}, {"md5": "1"}).version == 1
    ledger.append("own", ledger.read("own"), "promote", 1, "it is mine")
    assert names() - before == {"bare", "own", "own.ledger"}

    become(OWNER, monkeypatch)
    known.revoke_user_permission(SECOND[0], "registered_model", "bare")
    known.grant_user_permission(SECOND[0], "registered_model", "bare", "MANAGE")
    become(SECOND, monkeypatch)  # an owner now, who is no administrator
    ledger.append("bare", ledger.read("bare"), "promote", 1, "it is mine now")
    become(OWNER, monkeypatch)
    store.connect().create_registered_model("old")
    store.connect().create_model_version("old", "s3://nowhere/m", await_creation_for=0)
    ledger.append("old", ledger.read("old"), "promote", 1, "I am the administrator")
    assert [ledger.champion(name) for name in ("bare", "own", "old")] == [1, 1, 1]
