"""What people and faults do to a ledger and its model in MLflow is said, mended where it can be, and no dead end."""

import shutil
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from flows import promote as flow
from flows.rollback import rollback
from pipelines.core.errors import InputError
from pipelines.lifecycle import history, promotion
from pipelines.tracking import ledger, ledger_cache, ledger_events, ledger_notes, registry, store, version_tags
from pipelines.tracking.ledger_events import Event
from tests.support import ledgers

PARAMS = """
evaluate: {m: {task: rows}}
promote: {m: {run: m, gate: off}}
"""


@pytest.fixture
def client(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MlflowClient]:
    """A store with four versions of `m`, of which none is champion; what is said is not silenced."""
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    (checkout / "params.yaml").write_text(PARAMS)
    monkeypatch.setattr(promotion, "require_answer", lambda version: None)  # they cannot be opened
    ledgers.register_versions()
    yield store.connect()
    mlflow.set_tracking_uri(None)


def promote(*versions: int) -> None:
    """What `bertline promote m --version N` does; outside a flow run."""
    for version in versions:
        assert flow.promote.fn("m", version, reason="a test").promoted


def test_a_deleted_champion_does_not_block_promotion(client: MlflowClient, capsys: pytest.CaptureFixture[str]) -> None:
    promote(1)
    client.delete_model_version("m", "1")
    with pytest.raises(InputError, match="no champion before version 1 to roll back to"):
        rollback("m")
    outcome = flow.promote.fn("m", 2)
    assert "m: version 1 is the champion in the ledger, but it was deleted" in capsys.readouterr().err
    sentence = "version 1, the champion, was deleted: no rule compares the challenger with it"
    assert outcome.reasons == [f"passed: {sentence}"]
    assert ledger.read("m").entries[-1].event.verdict["findings"][0]["sentence"] == sentence
    assert "| champion | 0 | 0 | yes |" in client.get_model_version("m", "2").description
    assert ledgers.alias() == ledger.champion("m") == 2


def test_a_rollback_skips_deleted_versions(client: MlflowClient, capsys: pytest.CaptureFixture[str]) -> None:
    promote(1, 2, 3)
    for gone in ("2", "3"):
        client.delete_model_version("m", gone)
    assert rollback("m").version == 1
    assert "m: version 2 was champion before, but it was deleted" in capsys.readouterr().err
    assert ledgers.require_order(4).champions == (1,)
    promote(4, 1)
    client.delete_model_version("m", "4")
    with pytest.raises(InputError, match="no champion before version 1 to roll back to"):
        rollback("m")
    assert "version 1 was champion before, but it was deleted" not in capsys.readouterr().err


@pytest.mark.parametrize("look", ["history", "history at", "rollback", "rollback to the champion"])
def test_reading_the_ledger_repairs_the_alias_and_reports_it(
    look: str, client: MlflowClient, capsys: pytest.CaptureFixture[str]
) -> None:
    promote(1, 2)
    client.set_registered_model_alias("m", "champion", "3")
    if look == "rollback to the champion":
        with pytest.raises(InputError, match="version 2 is the champion already"):
            rollback("m", to=2)
    elif look == "rollback":
        rollback("m")
    else:
        history.champion_at("m", "2999-01-01") if look == "history at" else history.history("m")
    assert "m: version 3 had the alias champion, but the ledger says version 2; corrected the alias" in (
        capsys.readouterr().err
    )
    assert ledgers.alias() == (1 if look == "rollback" else 2)


def test_a_read_only_user_sees_the_history_despite_a_wrong_alias(
    client: MlflowClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    promote(1)
    client.set_registered_model_alias("m", "champion", "3")

    def refuse(*_: object) -> None:
        raise MlflowException("Permission denied", 7)

    monkeypatch.setattr(MlflowClient, "set_registered_model_alias", refuse)
    assert history.history("m")["champion"] == 1
    assert "the alias cannot be moved" in capsys.readouterr().err


def test_an_alias_of_a_never_promoted_model_is_left_alone(client: MlflowClient) -> None:
    client.set_registered_model_alias("m", "champion", "3")
    assert history.plain(history.history("m")) == "m has no champion"
    assert ledgers.alias() == 3
    with pytest.raises(InputError, match=r"no registered model 'n'.*; there are: m$"):
        history.history("n")


def test_a_note_that_became_a_promotion_is_noticed(client: MlflowClient) -> None:
    promote(1, 2)
    ledger_notes.add("m", ledger.read("m").entries[-1].event, {"summary": "took it up"})
    noted, after = ledger.read("m"), ledger.read("m").last
    assert noted.notes[0].event.seen == ledger_events.end(noted.kept[:2])
    older = Event("older", "promote", 3, 2, *after, "me", "by a release that names no last entry")
    client.create_model_version("m.ledger", "models:/m/3", tags={"event": older.text()})
    ledger.note_end(client, "m", ledger.read("m").kept)
    assert ledger.champion("m") == 3  # read here
    forged = Event("forged", "promote", 4, 2, *after, "me", "never happened")
    client.set_model_version_tag("m.ledger", "3", "event", forged.text())
    assert history.history("m")["damage"] == ["event 3 was changed or removed after it was read here"]


@pytest.mark.parametrize("harm", ["changed", "deleted"])
def test_a_deleted_or_changed_last_event_is_noticed_where_it_was_read(
    harm: str, client: MlflowClient, capsys: pytest.CaptureFixture[str]
) -> None:
    promote(1, 2)
    assert ledger.champion("m") == 2
    if harm == "deleted":
        client.delete_model_version("m.ledger", "2")
    else:
        changed = ledger.read("m").entries[-1].event.text().replace('"version": 2', '"version": 3')
        client.set_model_version_tag("m.ledger", "2", "event", changed)
    damage = "event 2 was changed or removed after it was read here"
    noted = "event 2, which was the last one, was changed or removed"
    assert history.history("m")["damage"] == [damage, noted]
    assert f"tampered with: {damage}" in history.plain(history.history("m"))
    capsys.readouterr()
    for _ in range(2):  # what was read here is the evidence, and stays
        assert ledger.champion("m") == (1 if harm == "deleted" else 3)
        assert f"m: the ledger was tampered with: {damage}" in capsys.readouterr().err
    promote(4)
    assert history.history("m")["damage"] == [*(["event 2 was removed"] if harm == "deleted" else []), damage]
    shutil.rmtree(ledger_cache.FOLDER)  # by a person who has understood it
    assert history.history("m")["damage"] == (["event 2 was removed"] if harm == "deleted" else [])


@pytest.mark.parametrize("reads", [lambda: promote(2), lambda: ledger.read("m"), lambda: ledger.champion("m")])
def test_whoever_reads_or_writes_the_ledger_knows_its_events_from_then_on(
    reads: Callable[[], object], client: MlflowClient
) -> None:
    promote(1)
    shutil.rmtree(ledger_cache.FOLDER, ignore_errors=True)
    reads()
    client.delete_registered_model("m.ledger")  # as an older copy of the database lacks it
    assert history.history("m")["damage"][0] == "event 1 was changed or removed after it was read here"


class Answers:
    """A server that takes an event, or not, and whose answer is an error."""

    def __init__(self, takes: int) -> None:
        self.takes, self.real = takes, MlflowClient.create_model_version

    def __call__(self, *arguments: Any, **more: Any) -> None:
        for _ in range(self.takes):
            self.real(*arguments, **more)
        raise MlflowException("the gateway has gone", 1)


@pytest.mark.parametrize("takes", [0, 1, 2])
def test_a_lost_answer_of_the_server_does_not_repeat_an_event(
    takes: int, client: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MlflowException("", 1).get_http_status_code() == HTTPStatus.INTERNAL_SERVER_ERROR
    promote(1)
    answers = Answers(takes)
    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "create_model_version", lambda *arguments, **more: answers(*arguments, **more))
        if takes:
            promote(2)
        else:
            with pytest.raises(
                InputError, match="m: see `bertline history` for whether promote of version 2 was recorded: the gat"
            ):
                promote(2)
    state = ledgers.require_order(2 if takes else 1)
    assert (state.champion, len(state.repeated)) == (2, takes - 1) if takes else (1, 0)
    lines = history.plain(history.history("m")).splitlines()
    assert sum("another event was first" in line for line in lines) == 0
    assert sum("does not count, it repeats an earlier event" in line for line in lines) == max(takes - 1, 0)


def test_a_long_verdict_is_cut_where_a_database_keeps_less(client: MlflowClient) -> None:
    findings = [
        {"rule": f"classes.ラベル|{i}", "found": i / 3, "asked": 0.5, "passed": i > 1, "sentence": "s"}
        for i in range(300)
    ]
    version_tags.describe(registry.version("m", 1), {"passed": False, "findings": findings})
    stored = client.get_model_version("m", "1")
    table = stored.description.splitlines()
    assert table[:3] == [
        "| rule | found | asked | passed |",
        "| --- | --- | --- | --- |",
        "| classes.ラベル/0 | 0 | 0.5 | no |",
    ]
    assert table[-2:] == ["", "The tag `verdict` has all of it."]
    assert all(line.endswith(" |") for line in table[:-2])
    assert 4900 < len(stored.description) <= 5000
    assert "classes.\\u30e9\\u30d9\\u30eb|299" in stored.tags["verdict"]
