"""A promotion waits for the service that it names, and the ledger keeps what was seen of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest

from flows import promote as flow
from flows.local.http_service import Settings, serving
from flows.local.watched_service import watched
from flows.rollback import rollback
from pipelines.core.errors import UsageError
from pipelines.core.ports import free_port
from pipelines.lifecycle import history, service_watch, status
from pipelines.lifecycle.service_watch import Client, Service
from pipelines.serving import catalogue
from pipelines.serving.keys import Keys
from pipelines.serving.model_sources import Source
from pipelines.tracking import ledger, registry, version_tags
from tests.support import exported, poisoned, stores, tiny

ADMIN, OTHER = "0123456789abcdef", "fedcba9876543210"
KEYS = Keys.parse([f"admin {ADMIN} predict,admin", f"other {OTHER}"], "keys")
PARAMS = tiny.PARAMS.replace("{run: tiny}}", "{run: tiny, gate: off}}")


@pytest.fixture
def made(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[poisoned.Versions]:
    """A store whose champion is version 1."""
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    stores.place_in(checkout)
    (checkout / "params.yaml").write_text(PARAMS)
    yield poisoned.Versions(poisoned.first(checkout, exported.classifier(tmp_path_factory)), checkout / "made")
    mlflow.set_tracking_uri(None)


def last(name: str = "tiny") -> dict[str, Any]:
    """What was seen after the last event."""
    return history.history(name)["events"][-1]["served"]


@pytest.mark.slow
def test_the_ledger_keeps_how_a_canary_agreed_with_the_replay(
    made: poisoned.Versions, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = made.upload("good")
    replay = {"answers": 9, "changed": 9, "share": 1.0, "interval": [0.7, 1.0], "against": 1, "tolerance": 0.1}
    version_tags.tag(registry.version("tiny", good), {"verdict": json.dumps({"findings": [], "replay": replay})})
    monkeypatch.setattr(service_watch, "AFTER_SECONDS", 0.1)
    monkeypatch.setenv("BERTLINE_SERVICE_KEY", ADMIN)
    with serving({"it": Source("tiny")}, Settings(keys=KEYS)) as address:
        with Client(Service(address, ADMIN)) as client:
            body = {"source": f"tiny@{good}", "share": 1.0}
            assert client.ask("PUT", "/models/it/canary", body)[0] == 200
            for number in range(40):
                row = {"text": f"犬 {number}"}
                assert client.ask("POST", "/predict/it", {"rows": [row]})[1]["version"] == good
            live: dict[str, Any] = {"rows": 0}
            while live["rows"] < 40:
                live = client.ask("GET", "/models/it")[1]["canary"]["replay"]
        flow.promote.fn("tiny", good, service=address)
    assert last()["replay"] == live
    assert f"tiny version {good} against version 1: " in last()["summary"]
    assert live["sentence"] in history.plain(history.history("tiny"))
    (champion,) = status.champions()
    assert champion["replay"] == live["sentence"]


@pytest.mark.slow
def test_the_ledger_keeps_what_was_seen_of_the_service(
    made: poisoned.Versions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good, wrong, unseen = (made.upload(kind) for kind in ("good", "wrong", "good"))
    monkeypatch.setattr(service_watch, "AFTER_SECONDS", 0.3)
    monkeypatch.setattr(catalogue, "FOLLOW_SECONDS", 600)  # it sees a version when it is told, and not by chance
    monkeypatch.setenv("BERTLINE_SERVICE_KEY", ADMIN)
    with serving({"it": Source("tiny")}, Settings(keys=KEYS)) as address:
        flow.promote.fn("tiny", good, service=address)
        seen = last()
        assert (seen["seen"], seen["failures"], seen["former"], seen["rows"]) == (True, 0, 1, len(poisoned.SMOKE))
        assert seen["requests"] > 2
        assert seen["longest_stall_ms"] > 0
        assert 0 < seen["seconds_to_first_answer"] < 60
        assert 0 <= seen["agreement"] <= 1
        assert f"tiny version {good} answered in the service at {address} after " in capsys.readouterr().err

        monkeypatch.setenv("BERTLINE_SERVICE", address)
        flow.promote.fn("tiny", wrong)
        assert last()["seen"] is False
        assert f"tiny version {wrong} was not seen in the service at {address}: it was refused" in last()["summary"]
        assert rollback("tiny").version == good
        assert last()["seen"] is True

        with Client(Service(address, ADMIN)) as client:  # it ends after the look that the rollback has asked for
            assert client.ask("POST", "/models/it/refresh")[0] == 200
        monkeypatch.setenv("BERTLINE_SERVICE_KEY", OTHER)  # the service looks at the alias later
        monkeypatch.setattr(service_watch, "SECONDS", 0.5)
        flow.promote.fn("tiny", unseen)
        assert "no answer of it within 0.5 s" in last()["summary"]
        monkeypatch.setenv("BERTLINE_SERVICE_KEY", "")
        rollback("tiny")
        assert "its status is 401" in last()["summary"]
    flow.promote.fn("tiny", unseen, service=f"http://127.0.0.1:{free_port()}")
    assert "no answer (" in last()["summary"]
    monkeypatch.delenv("BERTLINE_SERVICE")
    rollback("tiny")
    assert last() == {}
    assert history.plain(history.history("tiny")).count("in the service at ") == 6
    state = ledger.read("tiny")
    assert (len(state.notes), state.damage, state.overtaken) == (6, (), ())


def test_an_address_that_is_none_is_refused_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ("127.0.0.1:8000", "file:///etc/passwd", "http://"):
        with pytest.raises(UsageError, match=r"service: '.*' is no address such as http"):
            watched(wrong)
    monkeypatch.delenv("BERTLINE_SERVICE", raising=False)
    assert watched() is None


def test_predictions_are_alike_by_their_texts_or_else_by_their_numbers() -> None:
    assert service_watch.alike({"label": "a", "score": 0.9}, {"label": "a", "score": 0.2})
    assert not service_watch.alike({"label": "a", "score": 0.9}, {"label": "b", "score": 0.9})
    assert service_watch.alike({"value": 3.0}, {"value": 3.01})
    assert not service_watch.alike({"value": 3.0}, {"value": 3.5})
    entities = {"entities": [{"start": 0, "end": 2, "label": "a"}], "score": 0.9, "entity_scores": [0.9]}
    assert service_watch.alike(entities, entities | {"score": 0.8, "entity_scores": [0.8]})
    assert not service_watch.alike(entities, entities | {"entities": []})
    answer = {"answer": "a", "start": 1, "end": 2, "best": "a", "score": 0.9, "no_answer": 0.1}
    assert service_watch.alike(answer, answer | {"score": 0.8, "no_answer": 0.2})
    assert not service_watch.alike(answer, answer | {"start": 5, "end": 6})
    none = answer | {"answer": ""}
    assert service_watch.alike(none, none | {"start": 5, "end": 6, "best": "b"}), "both answer nothing"
    assert not service_watch.alike(none, answer)
