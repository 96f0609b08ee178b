"""From a challenger to a champion and back, on MLflow's own SQLite."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pyarrow as pa
import pytest

from pipelines.core import paths, schema, tables
from pipelines.core.errors import InputError
from pipelines.entries.evaluate import Evaluate
from pipelines.inference.predictor import Predictor
from pipelines.lifecycle import history
from pipelines.measurement import behaviour_checks, gate_measurements
from pipelines.tracking import ledger, ledger_cache, registry, store
from tests.support import tiny
from tests.support.places import CODE

PARAMS = """
prepare: {rows: {corpus: custom, source: x}}
encode: {rows: {task: rows, vocab: v, max_length: 16}}
finetune: {tiny: {data: rows, encoder: e}}
evaluate: {tiny: {task: rows}}
promote: {tiny: {run: tiny, at_least: 0.5, may_lose: 0.1}}
"""


@pytest.fixture
def registered(checkout: Path) -> Iterator[Path]:
    """Rows that the first model gets all right, since their labels are its own answers."""
    (checkout / "params.yaml").write_text(PARAMS)
    folder = tiny.classifier(checkout / "model")
    texts = [f"{a}{b}" for a in tiny.TEXTS[:4] for b in ("", "犬", "映画", "試合", "予約開始", "監督", "延長")]
    rows = pa.table({"id": [str(i) for i in range(len(texts))], "text": texts})
    rows = rows.append_column("label", Predictor.load(folder).predict(rows).column("label"))
    rows = rows.cast(schema.ROWS["single"])
    tables.write(paths.rows("rows") / "test.parquet", rows.to_batches(), rows.schema)
    tiny.TASK.with_(splits=("test",)).save(paths.rows("rows"))
    yield folder
    mlflow.set_tracking_uri(None)


def register(folder: Path) -> registry.Version:
    return registry.register("tiny", folder, CODE, "single", {"text": "犬"}, {"run": "tiny", "md5": str(folder)})


@pytest.mark.slow
def test_a_better_version_is_promoted_a_worse_one_refused_and_rollback_works(registered: Path, checkout: Path) -> None:
    from flows.promote import promote
    from flows.rollback import rollback

    first = register(registered)
    assert ledger.champion("tiny") is None
    outcome = promote("tiny")
    assert outcome.promoted
    assert outcome.champion == registry.get("tiny", "champion") == registry.get("tiny", "challenger")

    worse = register(tiny.classifier(checkout / "worse", seed=11))
    assert worse.version == 2
    refused = promote("tiny")
    assert not refused.promoted
    assert refused.champion.version == first.version
    assert any(
        reason.startswith("refused: accuracy 0.") and "champion's 1.0000" in reason for reason in refused.reasons
    )

    shutil.copytree(registered, checkout / "as-good")
    third = register(checkout / "as-good")
    with pytest.raises(InputError, match="its champion is version 1, not 2"):
        promote("tiny", instead_of=2)
    assert promote("tiny", instead_of=1, reason="newer rows").champion.version == third.version == 3
    _check_what_is_kept(third)
    assert ledger.read("tiny").champions == (1, 3)
    assert rollback("tiny").version == 1
    assert ledger.read("tiny").champions == (1,)
    with pytest.raises(InputError, match="no champion before version 1"):
        rollback("tiny")


def _check_what_is_kept(third: registry.Version) -> None:
    """The verdicts of the three, and the events of the two that were promoted."""
    listed = history.history("tiny")
    assert [(row["action"], row["version"], row["previous"]) for row in listed["events"]] == [
        ("promote", 1, None),
        ("promote", 3, 1),
    ]
    assert (listed["champion"], listed["events"][1]["reason"]) == (3, "newer rows")
    assert "promote  version 3 (before: 1)" in history.plain(listed)
    verdicts = [json.loads(registry.version("tiny", number).tags["verdict"]) for number in (1, 2, 3)]
    assert [verdict["passed"] for verdict in verdicts] == [True, False, True]
    assert listed["events"][1]["verdict"] == verdicts[2]
    none, third = (history.champion_at("tiny", at) for at in ("2026-01-01", "2999-01-01"))
    assert history.plain_at(none) == "tiny had no champion at 2026-01-01T00:00:00+00:00"
    assert history.plain_at(third).startswith("tiny version 3 was champion: ")
    assert third["event"] == listed["events"][1]


@pytest.mark.slow
def test_a_new_label_that_the_champion_lacks_does_not_block_promotion(registered: Path, checkout: Path) -> None:
    """The champion is wrong on its rows, and the next challenger may know it."""
    from flows.promote import promote

    register(registered)
    assert promote("tiny").promoted
    path = paths.rows("rows") / "test.parquet"
    rows = tables.read(path)
    labels = ["phones", *rows.column("label").to_pylist()[1:]]
    rows = rows.set_column(rows.column_names.index("label"), "label", pa.array(labels))
    tables.write(path, rows.to_batches(), rows.schema)
    tiny.TASK.with_(splits=("test",), labels=(*tiny.LABELS, "phones")).save(paths.rows("rows"))
    shutil.copytree(registered, checkout / "again")
    register(checkout / "again")
    outcome = promote("tiny")
    assert outcome.promoted
    count = rows.num_rows
    assert outcome.reasons[0].startswith(f"passed: accuracy {(count - 1) / count:.4f}, ")


def test_rows_replaced_during_measurement_are_reported(registered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = paths.rows("rows") / "test.parquet"

    def replaced(*_: object) -> list[dict[str, object]]:
        rows = tables.read(path).slice(1)
        tables.write(path, rows.to_batches(), rows.schema)
        return []

    monkeypatch.setattr(behaviour_checks, "check", replaced)
    with pytest.raises(InputError, match=r"test.parquet: a run replaced it while .*model was measured on it"):
        gate_measurements.measure(registered, Evaluate(task="rows"), approved=False)


@pytest.mark.slow
def test_the_gate_has_a_dry_run_and_can_be_off(registered: Path, checkout: Path) -> None:
    from flows.promote import promote

    register(registered)
    assert promote("tiny").promoted
    for number, (gate, passed) in enumerate({"dry_run": False, "off": True}.items(), start=2):
        (checkout / "params.yaml").write_text(
            PARAMS.replace("run: tiny,", f"run: tiny, gate: {gate}, max_latency_ratio: 99,")
        )
        version = register(tiny.classifier(checkout / gate, seed=11))
        outcome = promote("tiny")
        assert (outcome.promoted, outcome.champion.version) == (True, number)
        verdict = json.loads(registry.version("tiny", version.version).tags["verdict"])
        assert (verdict["gate"], verdict["passed"], bool(verdict["findings"])) == (gate, passed, gate == "dry_run")
        in_turn = [finding for finding in verdict["findings"] if finding["rule"] == "max_latency_ratio"]
        assert [0 < each["found"] < 99 for each in in_turn] == [True] * (gate == "dry_run")


@pytest.mark.slow
def test_rollback_refuses_a_version_that_does_not_answer(
    registered: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.promote import promote
    from flows.rollback import rollback

    first = register(registered)
    assert promote("tiny").promoted
    shutil.copytree(registered, checkout / "again")
    register(checkout / "again")
    assert promote("tiny").champion.version == 2
    with pytest.raises(InputError, match=r"no former champion '7'; there are: 1, 2"):
        rollback("tiny", to=7)
    with pytest.raises(InputError, match="version 2 is the champion already"):
        rollback("tiny", to=2)
    (registry.folder(first) / "model.safetensors").write_bytes(b"")
    with pytest.raises(InputError, match="its model changed since promotion"):
        rollback("tiny")
    monkeypatch.setattr(ledger, "content", lambda name, version: {})  # as of events of before, which name no content
    with pytest.raises(InputError, match="its weights are not readable"):
        rollback("tiny")
    assert registry.get("tiny", "champion").version == 2


@pytest.mark.slow
def test_a_version_rolled_back_is_not_promoted_again_by_itself(registered: Path, checkout: Path) -> None:
    """A retraining of the same data finds it again, and makes it the challenger."""
    from flows.promote import promote
    from flows.rollback import rollback

    (checkout / "params.yaml").write_text(PARAMS.replace("run: tiny,", "run: tiny, gate: off,"))
    for number in (1, 2, 3):
        shutil.copytree(registered, checkout / f"as-good-{number}")
        register(checkout / f"as-good-{number}")
        assert promote("tiny").promoted
    rollback("tiny", to=1, reason="2 and 3 are slow")
    for number in (2, 3):
        assert register(checkout / f"as-good-{number}").version == number
        refused = promote("tiny")
        assert (refused.promoted, refused.champion.version) == (False, 1)
        (reason,) = refused.reasons
        assert reason.startswith(f"refused: tiny version {number} was champion {'before' if number == 2 else 'until'} ")
        back = "behind it, to version 1" if number == 2 else "it back"
        assert re.search(
            rf" rolled (back )?{back} \(2 and 3 are slow\); --version {number} promotes it anyway$", reason
        )
    assert ledger.read("tiny").last[0] == 4
    assert promote("tiny", version=2).promoted
    register(checkout / "as-good-1")
    assert promote("tiny").promoted, "nobody has rolled it back"
    register(checkout / "as-good-2")
    assert promote("tiny").promoted, "somebody has asked for it since"


def test_an_alias_moved_by_hand_is_ignored_and_put_back(
    registered: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = store.connect()
    register(registered)
    client.set_registered_model_alias("tiny", "champion", "1")
    with pytest.raises(InputError, match="no alias 'champion'"):
        registry.get("tiny", "champion")
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    ledger.settle("tiny", ledger.read("tiny"))
    assert "tiny: version 1 had the alias champion, but the ledger says no version; corrected the alias" in (
        capsys.readouterr().err
    )
    assert client.get_registered_model("tiny").aliases == {"challenger": 1}
    ledger.append("tiny", ledger.read("tiny"), "promote", 1, "a test")
    assert client.get_registered_model("tiny").aliases["champion"] == 1
    client.delete_registered_model_alias("tiny", "champion")
    assert registry.get("tiny", "champion").version == 1
    ledger.settle("tiny", ledger.read("tiny"))
    assert client.get_registered_model("tiny").aliases["champion"] == 1
    client.set_model_version_tag("tiny.ledger", "1", "event", "{}")
    ledger.settle("tiny", ledger.read("tiny"))
    assert "the ledger was tampered with: event 1 was changed: it is no longer an event" in capsys.readouterr().err


def test_a_cached_ledger_is_not_read_again_and_is_verified(registered: Path) -> None:
    register(registered)
    client = store.connect()
    for number in (2, 3):
        client.create_model_version("tiny", "s3://nowhere/m", await_creation_for=0)
        ledger.append("tiny", ledger.read("tiny"), "promote", number, "a test")
        assert ledger.champion("tiny") == number
    (file,) = ledger_cache.FOLDER.iterdir()
    whole = file.read_text()
    for wrong in ("{", "[[1, 2]]", "[]"):
        file.write_text(wrong)
        assert ledger.champion("tiny") == 3
        assert file.read_text() == whole
    file.write_text(other := whole.replace('"action', '"auction'))  # whichever of the two was changed
    assert ledger.champion("tiny") == 3
    assert file.read_text() == other
    file.write_text(whole)
    changed = ledger.read("tiny").entries[-1].event.text().replace('"version": 3', '"version": 2')
    client.set_model_version_tag("tiny.ledger", "2", "event", changed)
    assert ledger.champion("tiny") == 2


def test_a_missing_name_or_alias_fails_in_one_sentence(registered: Path) -> None:
    with pytest.raises(InputError, match="no registered model 'tiny'; there are: none"):
        registry.get("tiny", "champion")
    register(registered)
    with pytest.raises(InputError, match=r"no alias 'champion'.*there are: challenger"):
        registry.get("tiny", "champion")


def test_no_secret_of_the_environment_is_written_down(
    registered: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "pa55-w0rd-of-a-test"
    for name in ("MLFLOW_TRACKING_PASSWORD", "AWS_SECRET_ACCESS_KEY", "BERTLINE_TOKEN", "HF_TOKEN"):
        monkeypatch.setenv(name, secret)
    ledger.append("tiny", ledger.read("tiny"), "promote", register(registered).version, "a test")
    files = [path for path in (checkout / "state").rglob("*") if path.is_file()]
    assert {"mlflow.db", "MLmodel"} <= {path.name for path in files}
    assert not [path for path in files if secret.encode() in path.read_bytes()]


def test_a_version_holds_its_md5_and_its_files(registered: Path) -> None:
    version = register(registered)
    assert version.tags["md5"] == str(registered)
    folder = registry.folder(version)
    assert json.loads((folder / "task.json").read_text())["labels"] == list(tiny.LABELS)
