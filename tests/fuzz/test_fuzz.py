"""Mutants of every kind of input: in CI a round of each, in `make soak` 20,000 in processes that are watched."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz import files, kinds, kinds_kept, kinds_of_models, mutate, run

EACH = 40  # mutants of a kind of input


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_no_mutant_gives_anything_but_rows_or_one_sentence() -> None:
    outcomes = run.fuzz(20000, seed=1)
    assert len(outcomes) == 20000
    assert run.failures(outcomes) == [], run.table(outcomes)


@pytest.mark.parametrize("kind", kinds.WEIGHTS, ids=lambda kind: kind.__name__)
def test_a_round_of_mutants_gives_rows_or_one_sentence(kind: Callable[[random.Random], kinds.Run], place: Path) -> None:
    results = [run.read(kind, random.Random(f"{kind.__name__} {number}")) for number in range(EACH)]
    assert {*results} <= {"rows", "changed", "sentence"}
    assert {*results} & {"changed", "sentence"}, "none of them was a mutant"


@pytest.mark.parametrize("kind", kinds.WEIGHTS, ids=lambda kind: kind.__name__)
def test_unchanged_inputs_are_read(
    kind: Callable[[random.Random], kinds.Run], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a sentence about each mutant would say nothing."""
    monkeypatch.setattr(mutate, "changed", lambda tree, rng: tree)
    monkeypatch.setattr(mutate, "as_json", lambda tree, rng: json.dumps(tree).encode())
    monkeypatch.setattr(mutate, "damaged", lambda content, rng: content)
    monkeypatch.setattr(mutate, "sized", lambda tree, sizes, rng: tree)
    monkeypatch.setattr(files, "parquet", lambda content, rng: content)
    monkeypatch.setattr(files, "REMOVES", False)
    monkeypatch.setattr(kinds, "odd_member", lambda info, rng: None)
    monkeypatch.setattr(kinds_of_models, "CHANGES", False)
    monkeypatch.setattr(kinds_kept, "CHANGES", False)
    for number in range(12):
        shutil.rmtree("artifacts", ignore_errors=True)
        assert run.result(kind(random.Random(number)), debug=True) == "rows"


def test_a_worker_that_does_not_start_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "__file__", "/dev/null/x")
    (only,) = run.watched(1, range(5))
    assert only["kind"] == "the worker"
    assert only["what"].startswith("the process ended with status 2: ")


def test_a_changed_answer_is_counted(place: Path) -> None:
    outcomes = [{"kind": "model", "number": number, "what": run.result(lambda: "changed")} for number in range(3)]
    assert run.table(outcomes).splitlines()[-1].split() == ["model", "3", "0", "3", "0", "0"]
