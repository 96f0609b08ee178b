"""From a challenger to a champion and back, on MLflow's own SQLite."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pyarrow as pa
import pytest

from pipelines.core import paths, schema, tables
from pipelines.core.errors import InputError
from pipelines.inference.predictor import Predictor
from pipelines.tracking import ledger, registry
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
    yield folder
    mlflow.set_tracking_uri(None)


def register(folder: Path) -> registry.Version:
    return registry.register("tiny", folder, CODE, "single", {"text": "犬"}, {"run": "tiny", "md5": str(folder)})


@pytest.mark.slow
def test_a_better_one_is_promoted_a_worse_one_refused_and_the_way_back_is_open(
    registered: Path, checkout: Path
) -> None:
    from flows.promote import promote, rollback

    first = register(registered)
    assert registry.find("tiny", "champion") is None
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
    assert promote("tiny").champion.version == third.version == 3
    assert ledger.read("tiny").champions == (1, 3)
    assert rollback("tiny").version == 1
    assert ledger.read("tiny").champions == (1,)
    with pytest.raises(InputError, match="no champion before version 1"):
        rollback("tiny")


def test_a_name_or_an_alias_that_is_not_there_is_one_sentence(registered: Path) -> None:
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
    kept = [path for path in (checkout / "state").rglob("*") if path.is_file()]
    assert {"mlflow.db", "MLmodel"} <= {path.name for path in kept}
    assert not [path for path in kept if secret.encode() in path.read_bytes()]


def test_a_version_remembers_where_it_came_from(registered: Path) -> None:
    version = register(registered)
    assert version.tags["md5"] == str(registered)
    folder = registry.folder(version)
    assert json.loads((folder / "task.json").read_text())["labels"] == list(tiny.LABELS)
