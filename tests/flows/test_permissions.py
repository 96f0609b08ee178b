"""MLflow with users: who may write a model but not its ledger registers versions, and can promote none."""

import re
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest
from mlflow.server import auth, get_app_client
from mlflow.server.auth.client import AuthServiceClient

from pipelines.core.errors import InputError
from pipelines.tracking import files, ledger, registry, store
from tests.support import servers, tiny
from tests.support.places import CODE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
OWNER, TRAINER = ("admin", "the owner's password"), ("trainer", "the trainer's password")


def become(user: tuple[str, str], patch: pytest.MonkeyPatch) -> None:
    patch.setenv("MLFLOW_TRACKING_USERNAME", user[0])
    patch.setenv("MLFLOW_TRACKING_PASSWORD", user[1])


@pytest.fixture
def server(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[servers.Mlflow]:
    settings = Path(auth.__file__).with_name("basic_auth.ini").read_text()
    settings, cached = re.subn("# auth_cache_ttl_seconds = 0", "auth_cache_ttl_seconds = 60", settings)
    assert cached, "a password is looked at again in each request, which takes a second on a busy machine"
    (checkout / "auth.ini").write_text(settings)
    secrets = {"MLFLOW_AUTH_ADMIN_PASSWORD": OWNER[1], "MLFLOW_FLASK_SERVER_SECRET_KEY": "a secret of the test"}
    secrets["MLFLOW_AUTH_CONFIG_PATH"] = str(checkout / "auth.ini")
    with servers.mlflow(checkout / "server", "--app-name", "basic-auth", **secrets) as running:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", running.address)
        become(OWNER, monkeypatch)
        yield running
    mlflow.set_tracking_uri(None)


def register(folder: Path, md5: str) -> registry.Version:
    return registry.register("tiny", folder, CODE, "single", {"text": "犬"}, {"run": "tiny", "md5": md5})


def add_trainer(server: servers.Mlflow) -> AuthServiceClient:
    """A user who may log runs; returns what grants him more."""
    users = get_app_client("basic-auth", server.address)
    users.create_user(*TRAINER)
    experiment = store.connect().get_experiment_by_name(store.EXPERIMENT)
    users.grant_user_permission(TRAINER[0], "experiment", experiment.experiment_id, "EDIT")
    return users


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
    add_trainer(server).grant_user_permission(TRAINER[0], "registered_model", "tiny", "EDIT")

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
    folder, users = tiny.classifier(checkout / "model"), add_trainer(server)
    store.connect().create_registered_model("tiny")
    users.grant_user_permission(TRAINER[0], "registered_model", "tiny", "EDIT")
    become(TRAINER, monkeypatch)
    store.connect().create_model_version("tiny", "s3://nowhere/m", await_creation_for=0)
    with pytest.raises(InputError, match=r"no tiny\.ledger, and only who owns tiny may create it; ask its owner"):
        ledger.append("tiny", ledger.read("tiny"), "promote", 1, "I want to")
    assert names() == {"tiny"}
    assert registry.register("own", folder, CODE, "single", {"text": "犬"}, {"md5": "1"}).version == 1
    ledger.append("own", ledger.read("own"), "promote", 1, "it is mine")
    assert names() == {"tiny", "own", "own.ledger"}

    become(OWNER, monkeypatch)
    users.revoke_user_permission(TRAINER[0], "registered_model", "tiny")
    users.grant_user_permission(TRAINER[0], "registered_model", "tiny", "MANAGE")
    become(TRAINER, monkeypatch)  # an owner now, who is no administrator
    ledger.append("tiny", ledger.read("tiny"), "promote", 1, "it is mine now")
    become(OWNER, monkeypatch)
    store.connect().create_registered_model("old")
    store.connect().create_model_version("old", "s3://nowhere/m", await_creation_for=0)
    ledger.append("old", ledger.read("old"), "promote", 1, "I am the administrator")
    assert [ledger.champion(name) for name in ("tiny", "own", "old")] == [1, 1, 1]
