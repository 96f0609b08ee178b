"""A compressed run in the registry: its version names its teacher, and everything that opens it answers alike."""

import json
import shutil
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import mlflow
import pyarrow.parquet as pq
import pytest
import yaml

from pipelines.core import paths, provenance, schema, tables
from pipelines.export import onnx_export
from pipelines.inference.predictor import Predictor
from pipelines.lifecycle import registration
from pipelines.scoring import batch_scoring
from pipelines.stages import compress, encode
from pipelines.tracking import registry
from tests.support import kinds, tiny
from tests.support.places import CODE

pytestmark = pytest.mark.slow
ENTRY = {"teacher": "teacher", "data": "it", "method": "dynamic_int8"}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which a compress stage has run."""
    folder = tmp_path_factory.mktemp("made")
    with chdir(folder):
        _compress()
    return folder


@pytest.fixture
def small(prepared: Path, checkout: Path) -> Iterator[Path]:
    """What the compress stage leaves: its folder, and dvc.lock with digests of what it read and wrote."""
    shutil.copytree(prepared, checkout, dirs_exist_ok=True)
    yield paths.model("small")
    mlflow.set_tracking_uri(None)


def _compress() -> None:
    teacher, student = tiny.classifier(paths.model("teacher")), paths.model("small")
    tables.write(paths.rows("it") / "train.parquet", kinds.rows("single").to_batches(), schema.ROWS["single"])
    kinds.TASKS["single"].with_(splits=("train",)).save(paths.rows("it"))
    values: dict[str, Any] = {"encode": {"it": {"task": "it", "vocab": str(teacher), "max_length": 32}}}
    values |= {"finetune": {"teacher": {"data": "it", "encoder": "e"}}, "compress": {"small": ENTRY}}
    Path("params.yaml").write_text(yaml.safe_dump(values))
    encode.main("it")
    compress.main("small")
    digests = {str(folder): provenance.digest(folder)[:32] for folder in (teacher, student)}
    outs = [{"path": path, "md5": md5} for path, md5 in digests.items()]
    stages = {"finetune@teacher": {"outs": outs[:1]}, "compress@small": {"deps": outs[:1], "outs": outs[1:]}}
    Path("dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": stages}))


@pytest.mark.parametrize("exported", [False, True], ids=["torch", "onnx"])
def test_a_version_names_its_teacher_and_answers_as_the_run_does(exported: bool, small: Path, checkout: Path) -> None:
    tags = registration.provenance_tags("small")
    if exported:
        paths.onnx("small").mkdir(parents=True)
        onnx_export.export(small, paths.onnx("small"), 18)
    onnx = paths.onnx("small") if exported else None
    version = registry.register("it", small, CODE, "single", {"text": "犬"}, tags, onnx)
    challenger = registry.get("it", "challenger")
    assert challenger == version
    assert json.loads(challenger.tags["params"]) == ENTRY
    *_, before, last = json.loads(challenger.tags["lineage"])
    teacher = str(paths.model("teacher"))
    assert (before["stage"], last["stage"]) == ("finetune@teacher", "compress@small")
    assert last["read"] == before["wrote"] == {teacher: provenance.digest(paths.model("teacher"))[:32]}
    assert challenger.tags["md5"] == last["wrote"][str(small)]
    opened = registry.folder(challenger, "torch")
    facts = json.loads((opened / "variant.json").read_text())
    assert facts["teacher"] == {"run": "teacher", "sha256": provenance.sha256(Path(teacher) / "model.safetensors")}
    assert "Predictor.load" in (opened / "README.md").read_text()
    rows = kinds.rows("single")
    expected = Predictor.load(onnx or small).predict(rows)
    assert Predictor.load(registry.folder(challenger)).predict(rows).equals(expected)
    pq.write_table(rows.select(["id", "text"]), checkout / "in.parquet")
    assert batch_scoring.score(checkout / "in.parquet", checkout / "scored.parquet", challenger, ray=False) == 24
    scored = pq.read_table(checkout / "scored.parquet")
    assert scored.column("label").to_pylist() == expected.column("label").to_pylist()
    assert scored.column("score").to_pylist() == pytest.approx(expected.column("score").to_pylist(), abs=1e-6)
