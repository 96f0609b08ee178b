"""Verdicts, tags and events that others wrote, of any shape: history and lineage say what they can read of them."""

import json
from pathlib import Path
from typing import Any

import mlflow
import pytest

from pipelines.core.errors import InputError
from pipelines.lifecycle import history, lineage
from pipelines.tracking import ledger_events, registry, store
from pipelines.tracking.registry import Version
from tests.support import stores

FINDING = {"rule": "at_least", "found": 0.5, "asked": 0.0, "passed": True, "sentence": "accuracy 0.5"}
STAGE = {"stage": "finetune@x", "run": "", "read": {"rows": "0" * 32}, "wrote": {"model": "1" * 32}}
VERDICTS: list[Any] = [
    {"findings": 3},
    {"findings": None},
    {"findings": "abc"},
    {"findings": {"a": 1}},
    {"findings": [3, None, "x", [], {}, {"sentence": "alone"}, {**FINDING, "passed": "yes", "sentence": ["x"]}]},
]


def stored(**changes: Any) -> ledger_events.Kept:
    whole = ledger_events.Event("1", "promote", 1, None, 0, "", "me", "a test", {"findings": [FINDING]})
    return ledger_events.Kept(1, 1000, json.dumps({**json.loads(whole.text()), **changes}))


@pytest.mark.parametrize("verdict", VERDICTS, ids=str)
def test_a_verdict_of_another_shape_is_skipped(verdict: Any) -> None:
    page = history.plain(history.told("m", ledger_events.replay([stored(verdict=verdict)]), {1}))
    assert page.splitlines()[1:] == ["   1  1970-01-01T00:00:01+00:00  promote  version 1, me: a test"]
    tags = {"lineage": json.dumps([STAGE]), "verdict": json.dumps(verdict), "teachers": '[{"model": 3}, 4]'}
    described = lineage.described(Version("m", 1, tags)) | {"champion": False, "parents": []}
    assert lineage.plain_model(described).startswith("m version 1, of commit unknown\nfinetune@x\n")


def test_valid_findings_are_shown_beside_invalid_ones() -> None:
    verdict = {"findings": [3, FINDING]}
    assert "accuracy 0.5" in history.plain(history.told("m", ledger_events.replay([stored(verdict=verdict)]), {1}))


@pytest.mark.parametrize("teachers", ['[{"model": 3}]', "[4]", '[{"model": "a"}]', "{}", "no JSON", "[[[["])
def test_teachers_of_another_shape_are_skipped(teachers: str) -> None:
    assert lineage.teachers(Version("m", 1, {"teachers": teachers})) == []


@pytest.mark.parametrize(
    "changes",
    [{"version": 0}, {"version": -1}, {"version": 10**30}, {"version": True}, {"previous": -3}, {"after": -1}],
    ids=str,
)
def test_an_event_of_no_version_is_damage(changes: dict[str, Any]) -> None:
    state = ledger_events.replay([stored(**changes)])
    assert state.damage == ("event 1 was changed: it is no longer an event",)
    assert state.champion is None


@pytest.mark.parametrize(
    "mlmodel",
    [
        "{",
        "3",
        "[]",
        "",
        "flavors: 3",
        "flavors: {python_function: {artifacts: {model: {path: [1]}}}}\nsaved_input_example_info: {artifact_path: 3}",
        "flavors: {python_function: {artifacts: [model]}}\nsaved_input_example_info: [3]",
        "flavors: {python_function: {artifacts: {model: 3}}}\nsaved_input_example_info: {artifact_path: e.json}",
    ],
)
def test_an_mlmodel_file_of_another_shape_fails_in_one_sentence(checkout: Path, mlmodel: str) -> None:
    stores.place_in(checkout)
    folder = checkout / "uploaded"
    folder.mkdir()
    (folder / "MLmodel").write_text(mlmodel)
    (folder / "e.json").write_text('[3, "no row"]')
    client = store.connect()
    client.create_registered_model("m")
    client.create_model_version("m", folder.as_uri(), await_creation_for=0)
    for opened in (registry.folder, registry.example, registry.profile, registry.content):
        with pytest.raises(InputError) as error:
            opened(registry.version("m", 1))
        assert "\n" not in str(error.value)
    mlflow.set_tracking_uri(None)


def test_a_lineage_of_no_stages_fails_in_one_sentence() -> None:
    for tag in ("[]", "[3]", '[{"stage": "x"}]', "{", None):
        with pytest.raises(InputError, match="has no lineage"):
            lineage.described(Version("m", 1, {"lineage": tag} if tag else {}))
