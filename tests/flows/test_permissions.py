"""MLflow with users: who may write a model but not its ledger registers versions, and can promote none."""

import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import mlflow
import pytest
import yaml
from mlflow.server import get_app_client
from mlflow.server.auth.client import AuthServiceClient
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

from pipelines.core.errors import InputError
from pipelines.lifecycle import promotion
from pipelines.tracking import files, ledger, ledger_cache, ledger_events, registry, store
from tests.support import doors, ledgers, servers, stores, tiny, users
from tests.support.places import CODE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
OWNER, TRAINER = ("admin", "the owner's password"), ("trainer", "the trainer's password")
NUMBERS = count(1)  # of models that are attacked, each by a user of its own
CHANGED = "version 1: its model changed since promotion"
SECOND = ("second", "the other trainer's password")


def become(user: tuple[str, str], patch: pytest.MonkeyPatch) -> None:
    patch.setenv("MLFLOW_TRACKING_USERNAME", user[0])
    patch.setenv("MLFLOW_TRACKING_PASSWORD", user[1])


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Mlflow]:
    place = tmp_path_factory.mktemp("server")
    with servers.running(stores.server(place, *users.OPTIONS, **users.settings(place, OWNER[1]))) as server:
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
    return {model.name for model in store.connect().search_registered_models()}


def test_a_user_who_may_only_register_cannot_promote(
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
    refused = r"promote of version 2 was not recorded at .*: this user has no permission for"
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
    with pytest.raises(
        InputError, match=r"bare\.ledger does not exist, and only the owner of bare may create it; ask the owner"
    ):
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


def trainer_of(name: str) -> tuple[str, str]:
    return f"trainer of {name}", "the attacker's password"


@pytest.fixture
def attacked(server: servers.Mlflow, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model whose version 1 the owner has promoted; the user is one who may register versions of it since."""
    name = f"attacked-{next(NUMBERS)}"
    trainer, folder = trainer_of(name), tiny.classifier(checkout / "model")
    version = registry.register(name, folder, CODE, "single", {"text": "犬"}, {"md5": "1"})
    ledger.append(name, ledger.read(name), "promote", 1, "the first", content=registry.content(version))
    assert registry.folder(registry.get(name, "champion")).is_dir()
    add(trainer, server).grant_user_permission(trainer[0], "registered_model", name, "EDIT")
    become(trainer, monkeypatch)
    return name


@pytest.mark.parametrize("absolute", [True, False])
def test_a_version_writes_nothing_outside_of_its_folder(attacked: str, checkout: Path, absolute: bool) -> None:
    """MLmodel, which whoever registers uploads, names the places of a version's files."""
    target, evil = checkout / "params.yaml", checkout / "evil"
    place = str(target) if absolute else "../../../params.yaml"
    (evil / str(target).lstrip("/")).parent.mkdir(parents=True)
    for file in (evil / str(target).lstrip("/"), evil / "params.yaml"):
        file.write_text("the attacker's")
    flavor = {"artifacts": {"model": {"path": place, "uri": "x"}}, "loader_module": "x", "python_version": "3.11"}
    (evil / "MLmodel").write_text(yaml.safe_dump({"flavors": {"python_function": flavor}}))
    version = registry.version(attacked, ledgers.upload(attacked, evil))
    with pytest.raises(InputError, match="lies outside this folder; the name may be an attack"):
        registry.folder(version)
    assert not target.exists()


def test_another_model_of_the_name_is_not_opened(
    attacked: str, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may register renames the model and makes one of its name: its version 1 is another model."""
    store.connect().rename_registered_model(attacked, f"{attacked}-aside")
    other = tiny.classifier(checkout / "other", seed=9)
    with pytest.raises(InputError, match=rf"{attacked}\.ledger: another user created it"):
        registry.register(attacked, other, CODE, "single", {"text": "犬"}, {"md5": "2"})
    store.connect().create_registered_model(attacked)
    assert registry.register(attacked, other, CODE, "single", {"text": "犬"}, {"md5": "2"}).version == 1
    become(OWNER, monkeypatch)
    with pytest.raises(InputError, match=f"{attacked} version 1: its model changed since promotion"):
        registry.folder(registry.get(attacked, "champion"))


def test_a_champion_whose_files_were_overwritten_is_not_opened(
    attacked: str, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = store.connect()
    place = client.get_model_version_download_uri(attacked, "1")
    (checkout / "config.json").write_text('{"architectures": ["attacker"]}')
    get_artifact_repository(f"{place}/artifacts/model").log_artifact(str(checkout / "config.json"))
    client.set_model_version_tag(attacked, "1", registry.RUNTIME, "other")
    with pytest.raises(InputError, match=f"{attacked} version 1: its runtime changed since promotion"):
        registry.folder(registry.get(attacked, "champion"), "torch")
    client.set_model_version_tag(attacked, "1", registry.RUNTIME, "torch")
    become(OWNER, monkeypatch)
    shutil.rmtree(files.HOME)  # as on another machine
    with pytest.raises(InputError, match=f"{attacked} version 1: its model changed since promotion"):
        registry.folder(registry.get(attacked, "champion"))


def test_no_door_opens_an_overwritten_champion(attacked: str, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    become(OWNER, monkeypatch)
    doors.furnish(checkout, attacked, checkout / "model")
    better = tiny.classifier(checkout / "better", seed=9)
    registry.register(attacked, better, CODE, "single", {"text": "犬"}, {"md5": "2"})
    of_champion = doors.of_champion(attacked, checkout)
    for door in of_champion.values():
        door()
    assert doors.promoted(attacked, 2).changed
    with doors.running(attacked) as service:
        assert promotion.rollback(attacked).version == 1

        become(trainer_of(attacked), monkeypatch)
        place = store.connect().get_model_version_download_uri(attacked, "1")
        get_artifact_repository(f"{place}/artifacts/model").log_artifacts(str(better))
        become(OWNER, monkeypatch)
        shutil.rmtree(files.HOME)  # as on another machine
        service.follow()
        assert service[attacked].version.version == 2, "it answers on"
        assert CHANGED in service.refused(attacked).reason
    for name, door in of_champion.items():
        with pytest.raises(InputError, match=CHANGED):
            pytest.fail(f"{name} opened it: {door()}")
    with pytest.raises(InputError, match=CHANGED):
        doors.promoted(attacked, 2)
    assert ledger.champion(attacked) == 1

    ledger.append(attacked, ledger.read(attacked), "promote", 2, "by hand")
    with pytest.raises(InputError, match=CHANGED):
        promotion.rollback(attacked)
    params = checkout / "params.yaml"
    params.write_text(params.read_text().replace("may_lose: 1", "gate: off"))
    with pytest.raises(InputError, match=CHANGED):
        doors.promoted(attacked, 1)
    assert ledger.champion(attacked) == 2


def test_a_ledger_created_first_by_another_user_is_refused(
    attacked: str, checkout: Path, server: servers.Mlflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh, third = f"{attacked}-fresh", (f"third of {attacked}", "the third one's password")
    store.connect().create_registered_model(f"{fresh}.ledger")
    folder = tiny.classifier(checkout / "fresh")
    become(OWNER, monkeypatch)
    add(third, server)
    for user in (OWNER, third):
        become(user, monkeypatch)
        with pytest.raises(InputError, match=rf"{fresh}\.ledger: another user created it before {fresh}"):
            registry.register(fresh, folder, CODE, "single", {"text": "犬"}, {"md5": "1"})
        assert fresh not in names()
    become(OWNER, monkeypatch)
    store.connect().delete_registered_model(f"{fresh}.ledger")
    assert registry.register(fresh, folder, CODE, "single", {"text": "犬"}, {"md5": "1"}).version == 1


def test_a_changed_ledger_end_is_reported_by_a_fresh_checkout(attacked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    become(OWNER, monkeypatch)
    version, client = registry.version(attacked, 1), store.connect()
    ledger.append(attacked, ledger.read(attacked), "promote", 1, "again", content=registry.content(version))
    assert ledger.read(attacked).damage == ()
    text = client.get_model_version(f"{attacked}.ledger", "2").tags[ledger_events.TAG]
    changes = (
        lambda: client.set_model_version_tag(
            f"{attacked}.ledger", "2", ledger_events.TAG, text.replace("again", "anew")
        ),
        lambda: client.delete_model_version(f"{attacked}.ledger", "2"),
    )
    for change in changes:
        change()
        shutil.rmtree(ledger_cache.FOLDER, ignore_errors=True)
        assert ledger.read(attacked).damage == ("event 2, which was the last one, was changed or removed",)
