"""Files of answers by an earlier release, which had no scores of entities: receipts, replays and increments."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.core import schema
from pipelines.inference import receipt_keys
from pipelines.scoring import job, manifest, verification
from pipelines.tracking import ledger, registry
from tests.support import exported
from tests.support.places import CODE

pytestmark = pytest.mark.slow
TEXTS = ["私は犬が好き。", "映画の公開日が決定、監督が語る", "試合は延長の末に決着した"]


@pytest.fixture
def tagger(source: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a registered tagger; `source` has texts for it."""
    place = exported.models(tmp_path_factory)
    files = (place / "tagging", CODE, "tagging", {"text": "犬"}, {"run": "tagger"}, place / "tagging-onnx")
    version = registry.register("tagger", *files)
    ledger.append("tagger", ledger.read("tagger"), "promote", version.version, "a test")
    pq.write_table(pa.table({"text": TEXTS}), source / "a.parquet")
    return "tagger"


def test_answers_without_scores_of_entities_stay_valid_and_are_not_taken_over(
    tagger: str, source: Path, target: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BERTLINE_QUIET", "")
    keys = target.with_name("receipts.key")
    receipt_keys.make(keys)

    def run(name: str, **more: Any) -> job.Outcome:
        options = job.Options(receipts=str(keys), commit="c", **more)
        return job.run(source, target.with_name(name), tagger, "champion", options)

    fields = [field for field in schema.PREDICTIONS["tagging"] if field.name not in schema.LATER]
    with monkeypatch.context() as earlier_release:
        earlier_release.setitem(schema.PREDICTIONS, "tagging", pa.schema(fields))
        before = Path(run("before").target)
    assert "entity_scores" not in pq.read_schema(before / "a.parquet").names
    assert verification.verify(before, keys, replay=True).findings == []

    since = run("since", since=str(before))
    assert since.summary[manifest.MEASURED]["taken_over"] == 0
    assert "a.parquet: an earlier release wrote it, without entity_scores; none of its" in capsys.readouterr().err
    after = Path(since.target)
    assert verification.verify(after, keys, replay=True).findings == []
    rows, older = pq.read_table(after / "a.parquet"), pq.read_table(before / "a.parquet")
    assert any(rows.column("entity_scores").to_pylist())

    edited = target.with_name("edited.parquet")
    scores = rows.column("entity_scores")
    for table in (
        rows.drop_columns(["entity_scores"]),
        older.append_column("entity_scores", scores),
        rows.set_column(rows.schema.get_field_index("entity_scores"), "entity_scores", pa.nulls(3, scores.type)),
    ):
        pq.write_table(table, edited)
        findings = verification.verify(edited, keys).findings
        assert [finding.partition(": row ")[2] for finding in findings] == [
            f"{number}: its answer was touched" for number in range(3)
        ]
