"""Every kind of task: from rows to a version that is promoted, served, scored with, and rolled back."""

import json
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pyarrow as pa
import pytest
import yaml

from flows.promote import promote
from flows.rollback import rollback
from flows.score import score
from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import new_head
from pipelines.core import paths, schema, tables
from pipelines.inference.predictor import Predictor
from pipelines.lifecycle import history
from pipelines.measurement import gate_measurements
from pipelines.tracking import ledger, registry
from tests.support import http, kinds, tiny
from tests.support.places import CODE

GATE = {"run": "it", "at_least": 0.0, "may_lose": 1.0, "max_size_mb": 100.0}
IN_TURN = {"max_latency_ratio": 1000.0}  # takes seconds, and asks a predictor that all kinds share


@pytest.fixture(params=[*kinds.TASKS])
def kind(request: pytest.FixtureRequest, checkout: Path) -> Iterator[str]:
    """A kind, with rows of it and a gate in the working folder."""
    kind: str = request.param
    rows = kinds.rows(kind)
    tables.write(paths.rows("rows") / "test.parquet", rows.to_batches(), rows.schema)
    kinds.TASKS[kind].with_(splits=("test",)).save(paths.rows("rows"))
    entries = yaml.safe_load(tiny.PARAMS.replace("tiny", "it"))
    entries["promote"] = {"it": GATE | (IN_TURN if kind == "tagging" else {})}
    Path("params.yaml").write_text(yaml.safe_dump(entries))
    yield kind
    mlflow.set_tracking_uri(None)


def register(kind: str, name: str) -> registry.Version:
    folder = Path(name)
    encoder = tiny.encoder(folder.with_name(f".{name}.encoder"))
    task = kinds.TASKS[kind].with_(splits=("test",))
    folder.mkdir()
    model_folder.save(new_head.for_task(encoder, task), folder, encoder, task)
    return registry.register("it", folder, CODE, kind, request_rows(kind)[0], {"run": "it", "md5": name})


def request_rows(kind: str) -> list[dict[str, object]]:
    """The rows without what is to be predicted."""
    return kinds.rows(kind).select(schema.INPUTS[kind]).to_pylist()


@pytest.mark.slow
def test_a_version_of_every_kind_goes_all_the_way(kind: str) -> None:
    first = register(kind, "first")
    assert promote("it").champion == first
    second = register(kind, "second")
    assert promote("it").champion == second
    verdict = json.loads(registry.version("it", 2).tags["verdict"])
    assert {finding["rule"] for finding in verdict["findings"]} == {*GATE, *(IN_TURN if kind == "tagging" else {})} - {
        "run"
    }

    answers = Predictor.load(registry.folder(second)).predict(pa.Table.from_pylist(request_rows(kind)))
    column = gate_measurements.SAYS.get(kind, "label")
    with http.client(second, Predictor.load(registry.folder(second))) as service:
        answer = service.post("/predict", json={"rows": request_rows(kind)})
    assert answer.status_code == 200, answer.text
    expected = answers.column(column).to_pylist()
    if kind == "regression":  # torch's numbers depend on the batch
        expected = pytest.approx(expected, abs=1e-5)
    assert [row[column] for row in answer.json()["predictions"]] == expected

    assert score("it", "artifacts/rows/rows/test.parquet", "scored.parquet", prefix="said_") == answers.num_rows
    assert tables.read(Path("scored.parquet")).column(f"said_{column}").equals(answers.column(column))

    assert rollback("it", reason="to see").version == first.version
    assert ledger.champion("it") == 1
    assert "to see" in history.plain(history.history("it"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tagging", "span"], indirect=True)
def test_the_verdict_of_a_refusal_is_stored(kind: str) -> None:
    """numpy's numbers are no JSON, in a verdict that refuses as in one that accepts."""
    entries = yaml.safe_load(Path("params.yaml").read_text())
    entries["promote"]["it"] |= {"at_least": 1.0}
    Path("params.yaml").write_text(yaml.safe_dump(entries))
    register(kind, "first")
    assert not promote("it").promoted
    verdict = json.loads(registry.version("it", 1).tags["verdict"])
    assert {finding["rule"] for finding in verdict["findings"] if not finding["passed"]} == {"at_least"}
