"""The conditions of a new version, its trial, and the memory of those that were refused."""

import asyncio
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.core import container, json_file, memory
from pipelines.core.errors import InputError
from pipelines.measurement import smoke_answers
from pipelines.measurement.smoke_answers import SmokeAnswers
from pipelines.serving import certification, limits, refused_versions, trial
from pipelines.serving.admission import BusyError
from pipelines.serving.certification import Conditions, RefusedError
from pipelines.serving.model_threads import ModelThreads
from pipelines.serving.refused_versions import RefusedVersions
from pipelines.serving.row_batcher import ModelError
from pipelines.serving.served_model import Answered, ServedModel
from pipelines.serving.trial import Trial
from pipelines.tracking import registry
from pipelines.tracking.registry import Version
from tests.support import tiny

ROW = {"label": "film", "score": 0.5, "scores": [0.5, 0.48, 0.02]}
SMOKE = SmokeAnswers([{"text": "犬"}], [ROW], "onnx 1")


@pytest.mark.parametrize(
    ("now", "exact", "other"),
    [
        ({}, False, False),
        ({"score": 0.5000001}, False, True),
        ({"scores": [0.49, 0.49, 0.02], "label": "phone"}, False, True),  # the labels tie
        ({"scores": [0.2, 0.78, 0.02], "label": "phone"}, True, True),
        ({"scores": [0.5, 0.48, float("nan")]}, True, True),
        ({"scores": [0.5, 0.5]}, True, True),
    ],
)
def test_an_answer_is_compared_by_its_bits_or_within_the_tolerance(
    now: dict[str, Any], exact: bool, other: bool
) -> None:
    """`exact` and `other` say whether the tolerance and whether the bits find a difference."""
    assert bool(SMOKE.difference([ROW | now], exact=False)) == exact
    assert bool(SMOKE.difference([ROW | now], exact=True)) == other


@given(st.floats(0, 1), st.floats(0, 1))
def test_numbers_differ_by_the_tolerance_at_most(before: float, now: float) -> None:
    registered = SmokeAnswers([{}], [{"value": before}], "")
    assert bool(registered.difference([{"value": now}], exact=True)) == (before != now)
    assert bool(registered.difference([{"value": now}], exact=False)) == (abs(before - now) > smoke_answers.TOLERANCE)


def test_a_large_number_differs_by_its_share_at_most() -> None:
    before = float(np.float32(153_211.03))
    registered = SmokeAnswers([{}], [{"value": before}], "")
    for now, differs in ((before + 0.06, False), (-before, True), (before * 1.029, False), (before * 1.031, True)):
        assert bool(registered.difference([{"value": now}], exact=False)) == differs
        assert registered.difference([{"value": now}], exact=True)


@pytest.mark.parametrize("infinite", [float("inf"), float("-inf"), float("nan")])
def test_a_number_that_is_not_finite_equals_none(infinite: float) -> None:
    for before, now in ((infinite, 3.0), (3.0, infinite), (infinite, infinite)):
        assert not smoke_answers.same(before, now, smoke_answers.TOLERANCE)
        assert not smoke_answers.same(before, now, 0.0)


def test_smoke_answers_are_read_as_written_and_other_files_are_refused(tmp_path: Path) -> None:
    SMOKE.write(tmp_path / "smoke.json")
    assert SmokeAnswers.read(tmp_path / "smoke.json") == SMOKE
    for text in ("[]", '{"rows": [], "answers": [], "computed_by": ""}', '{"rows": [{}], "answers": []}', "{"):
        (tmp_path / "other.json").write_text(text)
        with pytest.raises(InputError, match=r"other\.json: "):
            SmokeAnswers.read(tmp_path / "other.json")


def test_a_version_that_is_too_large_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weights").write_bytes(b"0" * 2_000_000)

    def certify(conditions: Conditions) -> None:
        certification.certified("m", Version("m", 2, {}), tmp_path, "", cast(Any, None), None, conditions)

    with pytest.raises(RefusedError, match=r"its files have 2\.0 MB; 1\.5 are allowed") as error:
        certify(Conditions(max_model_mb=1.5))
    assert error.value.lasting
    with pytest.raises(RefusedError, match=r"config\.json"):  # it is opened, and is no model
        certify(Conditions())
    monkeypatch.setattr(memory, "free_bytes", lambda: 3e6)
    with pytest.raises(RefusedError, match="needs 4 MB of memory; 3 MB are free") as error:
        certify(Conditions())
    assert not error.value.lasting


def test_the_memory_of_a_container_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "CGROUP", tmp_path)
    of_the_machine = memory.free_bytes()
    for name, text in (("memory.max", "1000"), ("memory.current", "700"), ("memory.stat", "anon 1\nfile 200")):
        (tmp_path / name).write_text(text + "\n")
    assert memory.free_bytes() == 500
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free_bytes() == pytest.approx(of_the_machine, rel=0.5)


def test_rows_longer_than_those_of_a_request_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the first rows of an evaluation, which has no limit."""
    folder, rows = tiny.classifier(tmp_path / "model"), [{"text": "犬"}, {"text": "犬" * (limits.MAX_CHARACTERS + 1)}]
    SmokeAnswers.of(folder, "torch", rows).write(tmp_path / "smoke.json")
    threads, version = ModelThreads(1), Version("m", 2, {})
    monkeypatch.setattr(registry, "example", lambda version: rows)
    for smoke in (tmp_path / "smoke.json", None):
        monkeypatch.setattr(registry, "smoke", lambda version, path=smoke: path)
        model = certification.certified("m", version, folder, "torch", threads, None, Conditions())
        assert model.version == version
    threads.shutdown()


def test_scores_of_spans_by_older_rules_of_decoding_are_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that is upgraded takes the versions that it served before."""
    folder, file = tiny.classifier(tmp_path / "model", "span"), tmp_path / "smoke.json"
    now = SmokeAnswers.of(folder, "torch", [{"question": "犬", "context": "映画の公開日が決定"}])
    monkeypatch.setattr(registry, "smoke", lambda version: file)
    threads = ModelThreads(1)

    def certify(changes: dict[str, Any], older: bool) -> None:
        values = asdict(now) | {"answers": [now.answers[0] | changes]}
        if older:
            del values["rules"]
        json_file.write(file, values)
        certification.certified("m", Version("m", 2, {}), folder, "torch", threads, None, Conditions())

    other = {"score": now.answers[0]["score"] + 0.5}
    certify(other, older=True)
    certify({}, older=False)
    with pytest.raises(RefusedError, match="score of smoke row 0 has other numbers"):
        certify(other, older=False)
    with pytest.raises(RefusedError, match="best of smoke row 0 is not '狐'"):
        certify({"best": "狐"}, older=True)
    threads.shutdown()


class Model:
    """A served model that answers its number, or fails."""

    def __init__(self, number: int, error: Exception | None = None) -> None:
        self.number, self.error = number, error
        self.trial: Trial | None = None
        self.alone = False
        self.canary = self.shadow = None

    async def predict(self, columns: Any, key: str = "") -> list[dict[str, Any]]:
        if self.error:
            raise self.error
        return [{"version": self.number}]

    async def _answered(self, columns: Any, key: str) -> Answered:
        return Answered(cast(Any, self), await self.predict(columns, key), [])

    async def answer(self, columns: Any, key: str = "") -> Any:
        return await ServedModel.answer(cast(Any, self), columns, key)

    async def answer_alone(self, columns: Any, key: str = "") -> Any:
        return await ServedModel.answer_alone(cast(Any, self), columns, key)


def ask(new: Model, count: int) -> list[int]:
    async def answers() -> list[int]:
        return [(await new.answer({})).predictions[0]["version"] for _ in range(count)]

    return asyncio.run(answers())


def test_a_version_goes_back_after_enough_failures_of_its_own() -> None:
    causes: list[str] = []
    old, new = Model(1), Model(2)
    new.trial = Trial(cast(Any, old), lambda ended, cause: causes.append(cause))
    assert ask(new, 57) == [2] * 57
    new.error = ModelError("the model returns NaN")
    assert ask(new, 2) == [1, 1]
    assert causes == [], "two are too few"
    assert ask(new, 3) == [1] * 3
    assert causes == ["failed in 3 of its first 60 requests (the model returns NaN)"], "3 of 60 are 5%; once only"
    assert not old.error


def test_a_request_that_names_a_version_gets_its_error_which_counts() -> None:
    causes: list[str] = []
    new = Model(2, ModelError("the model returns NaN"))
    new.trial, new.alone = Trial(cast(Any, Model(1)), lambda ended, cause: causes.append(cause)), True
    for _ in range(trial.LEAST_FAILURES):
        with pytest.raises(ModelError, match="the model returns NaN"):
            ask(new, 1)
    assert causes == ["failed in 3 of its first 3 requests (the model returns NaN)"]


@pytest.mark.parametrize("other", [RuntimeError("the former one's"), BusyError(1.0)])
def test_a_request_that_names_a_version_gets_its_error_where_the_former_one_fails_too(other: Exception) -> None:
    new = Model(2, ModelError("the model returns NaN"))
    new.trial = Trial(cast(Any, Model(1, other)), lambda ended, cause: pytest.fail("it goes back"))
    new.alone = True
    for _ in range(5):
        with pytest.raises(ModelError, match="the model returns NaN"):
            ask(new, 1)
    assert new.trial.failures == 0


def test_what_fails_in_both_versions_or_is_wrong_counts_as_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    new = Model(2, RuntimeError("私は犬が好き。"))
    new.trial = Trial(cast(Any, Model(1, RuntimeError())), lambda ended, cause: pytest.fail("it goes back"))
    for error in (new.error, InputError("a wrong row")):
        new.error = error
        for _ in range(5):
            with pytest.raises((RuntimeError, InputError)):
                ask(new, 1)
    monkeypatch.setattr(trial, "SECONDS", -1)
    new.trial = Trial(cast(Any, Model(1)), lambda ended, cause: pytest.fail("it goes back"))
    with pytest.raises(InputError):
        ask(new, 1)
    assert new.trial.former_or_end() is None, "its time is over"


def test_a_refused_version_is_tried_again_when_its_files_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused, second, third = RefusedVersions(), Version("m", 2, {}), Version("m", 3, {})
    (tmp_path / "weights").write_text("1")
    refused.add(second, "", tmp_path, "digest", RefusedError("it is wrong"))
    with pytest.raises(RefusedError, match="it is wrong"):
        refused.require_new(second, "")
    refused.require_new(second, "torch")
    refused.require_new(third, "")
    with pytest.raises(RefusedError, match="it has the files of version 2, which was refused: it is wrong"):
        refused.require_new_files(third, "", "digest")
    os.utime(tmp_path / "weights", ns=(1, 1))
    refused.require_new(second, "")
    refused.require_new_files(third, "", "digest")
    monkeypatch.setattr(refused_versions, "AGAIN_SECONDS", -1)
    refused.add(second, "", tmp_path, "digest", RefusedError("it is slow", lasting=False))
    refused.require_new(second, "")
    monkeypatch.setattr(refused_versions, "AGAIN_SECONDS", 60)
    for lasting in (False, True):
        refused.add(second, "", tmp_path, "digest", RefusedError("it is slow", lasting))
        with pytest.raises(RefusedError, match="it has the files of version 2") as error:
            refused.require_new_files(third, "", "digest")
        assert error.value.lasting == lasting
    refused.add(second, "", tmp_path, "digest", RefusedError("it is wrong"))
    refused.forget(third)
    with pytest.raises(RefusedError, match="it is wrong"):
        refused.require_new(second, "")
    refused.forget(second)
    refused.require_new(second, "")
