"""MLflow with users: who may write a model but not its ledger registers versions, and can promote none."""

from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest
from mlflow.server import get_app_client

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
    secrets = {"MLFLOW_AUTH_ADMIN_PASSWORD": OWNER[1], "MLFLOW_FLASK_SERVER_SECRET_KEY": "a secret of the test"}
    with servers.mlflow(checkout / "server", "--app-name", "basic-auth", **secrets) as running:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", running.address)
        become(OWNER, monkeypatch)
        yield running
    mlflow.set_tracking_uri(None)


def register(folder: Path, md5: str) -> registry.Version:
    return registry.register("tiny", folder, CODE, "single", {"text": "犬"}, {"run": "tiny", "md5": md5})


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
    ledger.append("tiny", ledger.read("tiny"), "promote", first.version, "the first")
    users = get_app_client("basic-auth", server.address)
    users.create_user(*TRAINER)
    experiment = store.connect().get_experiment_by_name(store.EXPERIMENT)
    users.grant_user_permission(TRAINER[0], "experiment", experiment.experiment_id, "EDIT")
    users.grant_user_permission(TRAINER[0], "registered_model", "tiny", "EDIT")

    become(TRAINER, monkeypatch)
    second = register(folder, "2")
    assert (second.version, registry.get("tiny", "challenger").version) == (2, 2)
    with pytest.raises(InputError, match=r"promote of version 2 is not entered at .*: this user has no permission for"):
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
