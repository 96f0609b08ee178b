"""A challenger has to beat the baselines of its task, on the rows of the gate."""

from collections.abc import Iterator
from pathlib import Path

import mlflow
import pyarrow as pa
import pytest
import yaml

from flows.promote import promote
from pipelines.core import paths, schema, tables
from pipelines.core.errors import InputError, UsageError
from pipelines.graph import checking
from pipelines.inference.predictor import Predictor
from pipelines.stages import baseline
from pipelines.tracking import ledger, registry
from tests.support import stores, tiny
from tests.support.places import CODE

BASELINES = {"svm": {"task": "rows"}, "other": {"task": "elsewhere"}, "dev": {"task": "rows", "split": "train"}}


@pytest.fixture
def challenger(checkout: Path) -> Iterator[registry.Version]:
    """A model that is right on half of the rows; the baseline's training rows are the rows that are scored."""
    stores.place_in(checkout)
    folder = tiny.classifier(checkout / "model")
    texts = [f"{a}{b}" for a in tiny.TEXTS[:4] for b in ("", "犬", "映画", "試合", "予約開始", "監督", "延長")]
    rows = pa.table({"id": [str(i) for i in range(len(texts))], "text": texts})
    predicted = Predictor.load(folder).predict(rows).column("label").to_pylist()
    wrong = dict(zip(tiny.LABELS, tiny.LABELS[1:] + tiny.LABELS[:1], strict=True))
    labels = [wrong[label] if i % 2 else label for i, label in enumerate(predicted)]
    rows = rows.append_column("label", pa.array(labels)).cast(schema.ROWS["single"])
    for split in ("train", "test"):
        tables.write(paths.rows("rows") / f"{split}.parquet", rows.to_batches(), rows.schema)
    tiny.TASK.with_(splits=("train", "test")).save(paths.rows("rows"))
    with_rules()
    yield registry.register("tiny", folder, CODE, "single", {"text": "犬"}, {"run": "tiny", "md5": "1"})
    mlflow.set_tracking_uri(None)


def with_rules(**rules: object) -> None:
    prepared = {name: {"corpus": "custom", "source": "x"} for name in ("rows", "elsewhere")}
    entries = {
        "prepare": prepared,
        "encode": {"rows": {"task": "rows", "vocab": "v", "max_length": 16}},
        "finetune": {"tiny": {"data": "rows", "encoder": "e"}},
        "evaluate": {"tiny": {"task": "rows"}},
        "baseline": BASELINES,
        "promote": {"tiny": {"run": "tiny", **rules}},
    }
    Path("params.yaml").write_text(yaml.safe_dump(entries))


@pytest.mark.slow
def test_a_challenger_below_the_baseline_of_its_task_is_refused(challenger: registry.Version) -> None:
    with pytest.raises(
        InputError, match=r"baseline svm: .*test.parquet: no such file; `bertline run baseline@svm` makes it"
    ):
        promote("tiny")
    baseline.main("svm")
    outcome = promote("tiny")
    assert not outcome.promoted
    assert ledger.champion("tiny") is None
    (refused,) = [reason for reason in outcome.reasons if reason.startswith("refused")]
    assert refused.startswith("refused: accuracy 0.5")
    assert "of the baseline svm is required; the difference -0." in refused
    assert refused.endswith(", which excludes 0")

    with_rules(beats="other")
    with pytest.raises(UsageError, match=r"tiny.beats: other is a baseline of elsewhere test, not of rows test"):
        promote("tiny")
    with_rules(beats=False)
    assert promote("tiny").promoted
    assert ledger.champion("tiny") == challenger.version


@pytest.mark.slow
def test_a_baseline_of_other_rows_is_not_compared(challenger: registry.Version) -> None:
    baseline.main("svm")
    path = paths.rows("rows") / "test.parquet"
    rows = tables.read(path).slice(1)
    tables.write(path, rows.to_batches(), rows.schema)
    with pytest.raises(InputError, match="baseline svm: it was scored on other rows; `bertline run baseline@svm`"):
        promote("tiny")


def test_check_reports_a_missing_baseline(checkout: Path) -> None:
    for fine in (True, False, "svm"):
        with_rules(beats=fine)
        checking.check()
    with_rules(beats="smv")
    with pytest.raises(UsageError, match=r"promote.tiny.beats: no baseline entry 'smv' \(did you mean 'svm'\?\)"):
        checking.check()
