"""Challenger and champion answer stored requests; the verdict, the ledger and `history` say what would change."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlflow
import pytest
from prefect.exceptions import ParameterTypeError

from flows.promote import promote
from pipelines.core import params, paths, tables
from pipelines.core.errors import UsageError
from pipelines.entries.promote import Promote
from pipelines.evaluation import gates
from pipelines.inference.predictor import Predictor
from pipelines.lifecycle import history, promotion
from pipelines.serving.request_store import FOLDER, RequestStore
from pipelines.serving.served_model import Answered
from pipelines.tracking import registry
from tests.support import commands, kinds, stores, tiny
from tests.support.places import CODE

PROMOTE = "promote: {tiny: {run: tiny, may_lose: 1.0, max_changed: %s}}\n"


@pytest.fixture
def second(checkout: Path) -> Iterator[registry.Version]:
    """A challenger with other weights than the champion, which has answered requests."""
    stores.place_in(checkout)
    rows = kinds.rows("single")
    tables.write(paths.rows("rows") / "test.parquet", rows.to_batches(), rows.schema)
    tiny.TASK.with_(splits=("test",)).save(paths.rows("rows"))
    rules("null")
    folders = [tiny.classifier(checkout / name, seed=seed) for name, seed in (("first", 5), ("second", 6))]
    first = registry.register("tiny", folders[0], CODE, "single", {"text": "犬"}, {"run": "tiny", "md5": "1"})
    assert promotion.promote("tiny", None, None, "").champion == first
    predictor = Predictor.load(folders[0])
    columns = {"text": rows.column("text").to_pylist()}
    store = RequestStore(FOLDER, days=7, texts=True)
    model: Any = SimpleNamespace(version=first, digest="", task=predictor.task)
    store.add(columns, Answered(model, predictor.predict(rows.select(["text"])).to_pylist(), []))
    store.close()
    yield registry.register("tiny", folders[1], CODE, "single", {"text": "犬"}, {"run": "tiny", "md5": "2"})
    mlflow.set_tracking_uri(None)


def rules(most: str) -> None:
    entry = PROMOTE % most
    others = [line for line in tiny.PARAMS.splitlines(keepends=True) if not line.startswith("promote")]
    Path("params.yaml").write_text("".join(others) + entry)


@pytest.mark.slow
def test_the_share_that_would_change_may_refuse_and_is_in_the_ledger(second: registry.Version) -> None:
    rules("0.01")
    refused = promotion.promote("tiny", None, None, "")
    assert not refused.promoted
    (reason,) = [reason for reason in refused.reasons if "replay" in reason]
    assert reason.startswith("refused: replay: 24 requested rows of the last 7 days, ")
    assert "at most 1.00% may change" in reason

    rules("null")
    dry = commands.bertline("promote", "tiny", "--replay", "3", "--dry").require(0).out
    assert dry.splitlines()[-2:] == ["it would become champion", "tiny version 1 is the champion"]
    assert json.loads(registry.version("tiny", 2).tags["verdict"])["replay"]["against"] == 1
    assert len(history.history("tiny")["events"]) == 1
    printed = commands.bertline("promote", "tiny", "--replay", "3").require(0).out
    (reason,) = [line for line in printed.splitlines() if "replay" in line]
    listed = history.history("tiny")
    first, last = listed["events"]
    assert "replay" not in first["verdict"], "there was no champion to compare with"
    numbers = last["verdict"]["replay"]
    assert numbers["answers"] == 24
    assert 0 < numbers["changed"] <= 24, "other weights answer otherwise"
    assert reason.removeprefix("passed: ") in history.plain(listed)
    assert json.loads(registry.version("tiny", 2).tags["verdict"])["replay"] == numbers


@pytest.mark.slow
def test_a_gate_that_is_off_leaves_the_verdict_and_says_that_nothing_is_replayed(
    second: registry.Version, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET")

    def dry() -> tuple[str, bool]:
        promotion.promote("tiny", None, None, "", replay_days=7, dry=True)
        tags = registry.version("tiny", second.version).tags
        return tags["verdict"], "--replay: the gate is off\n" in capsys.readouterr().err

    verdict, silent = dry()
    assert json.loads(verdict)["replay"]["against"] == 1
    assert not silent
    rules("null, gate: off")
    assert dry() == (verdict, True)
    rules("null, slices: {osaka: 0.5}")
    with pytest.raises(
        UsageError, match=r"^params\.yaml: promote\.tiny\.slices\.osaka: no slice 'osaka'; there are: none"
    ):
        dry()
    first = gates.Decision([])
    enforced = params.entry("promote", "tiny", Promote)
    assert promotion._replayed(first, second, None, enforced, promotion.Measurements(), 7) == first
    assert capsys.readouterr().err == "--replay: there is no champion to replay against\n"


def test_more_days_than_a_calendar_has_are_refused_before_anything_is_measured(checkout: Path) -> None:
    assert "36500" in commands.bertline("promote", "tiny", "--replay", "1000000").require(2).err
    (checkout / "params.yaml").write_text(
        tiny.PARAMS.replace("promote: {tiny: {", "promote: {tiny: {replay_days: 36501, ")
    )
    with pytest.raises(UsageError, match=r"promote\.tiny\.replay_days: .*36500"):
        params.entry("promote", "tiny", Promote)
    for days in (36_501, 0):  # as `bertline trigger promote/challenger --param` could ask
        with pytest.raises(ParameterTypeError, match="replay_days"):
            promote.validate_parameters({"name": "tiny", "replay_days": days})
    assert promote.validate_parameters({"name": "tiny"})["replay_days"] is None
