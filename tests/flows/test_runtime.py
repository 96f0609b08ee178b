"""A version is registered with the runtime that answers for it, and everything that opens it follows its tag."""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import mlflow
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mlflow import MlflowClient
from packaging.requirements import Requirement

import bertline
from flows import retrain
from pipelines.core import paths, schema, tables
from pipelines.core.errors import InputError
from pipelines.inference.predictor import Predictor
from pipelines.inference.runtimes import Onnx, Torch
from pipelines.lifecycle import registration
from pipelines.measurement import interleaved
from pipelines.scoring import batch_scoring
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.model_sources import Source
from pipelines.tracking import ledger, registry
from tests.support import exported, tiny
from tests.support.places import CODE

PARAMS = """
prepare: {rows: {corpus: custom, source: x}}
encode: {rows: {task: rows, vocab: v, max_length: 16}}
finetune: {tiny: {data: rows, encoder: e}}
evaluate: {tiny: {task: rows}}
export: {tiny: {}}
promote: {tiny: {run: tiny}}
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder and its export."""
    return exported.classifier(tmp_path_factory)


@pytest.fixture
def trained(checkout: Path, folders: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The artefacts of a run with an export, as the graph leaves them; the digests are in place of dvc.lock's."""
    (checkout / "params.yaml").write_text(PARAMS)
    folder = Path(shutil.copytree(folders / "model", paths.model("tiny")))
    shutil.copytree(folders / "onnx", paths.onnx("tiny"))
    rows = pa.table({"id": list(map(str, range(16))), "text": tiny.TEXTS, "label": [*tiny.LABELS, "film"] * 4})
    rows = rows.cast(schema.ROWS["single"])
    for split in ("train", "test"):
        tables.write(paths.rows("rows") / f"{split}.parquet", rows.to_batches(), rows.schema)
    tiny.TASK.with_(splits=("train", "test")).save(paths.rows("rows"))
    answers = Predictor.load(folder).predict(rows)
    tables.write(paths.predictions("tiny") / "test.parquet", answers.to_batches(), answers.schema)
    md5s = {"md5": "1" * 32, "md5_onnx": "2" * 32}
    monkeypatch.setattr(registration, "provenance_tags", lambda run, commit: {"run": run} | md5s)
    yield
    mlflow.set_tracking_uri(None)


def name_runtime(runtime: str) -> None:
    Path("params.yaml").write_text(f"{PARAMS}resources: {{runtime: {runtime}}}\n")


def replica(runtime: str = "") -> Predictor:
    """The predictor that the service opens."""
    with closing(Catalogue()) as catalogue:
        catalogue.serve({"tiny": Source("tiny", runtime=runtime)})
        return catalogue["tiny"].predictor


@pytest.mark.slow
@pytest.mark.usefixtures("trained")
def test_champion_and_challenger_are_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    version = retrain.register.fn("tiny")
    runtime, measured = version.tags["runtime"], json.loads(version.tags["runtime_measured"])
    assert runtime in ("onnx", "torch")
    assert measured["torch_p50_ms"] > 0
    assert measured["onnx_p50_ms"] > 0
    ratio = measured["onnx_faster"]
    assert 0 < ratio["least"] <= ratio["median"] <= ratio["greatest"]
    assert runtime == ("torch" if ratio["greatest"] < 1 else "onnx")
    monkeypatch.setattr(interleaved, "compare", lambda *args, **more: pytest.fail("measured again"))
    again = retrain.register.fn("tiny")
    assert (again.version, again.tags) == (version.version, version.tags)


@pytest.mark.usefixtures("trained")
@pytest.mark.parametrize(("runtime", "opened"), [("torch", Torch), ("onnx", Onnx)])
def test_every_reader_opens_the_runtime_that_the_version_was_registered_with(
    runtime: str, opened: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interleaved, "compare", lambda *args, **more: pytest.fail("measured, though one is named"))
    name_runtime(runtime)
    version = retrain.register.fn("tiny")
    assert version.tags["runtime"] == runtime
    assert "runtime_measured" not in version.tags
    (requirements,) = Path("state").rglob("requirements.txt")
    needs = {Requirement(line).name for line in requirements.read_text().split()}
    assert ("torch" in needs, "onnxruntime" in needs) == (runtime == "torch", runtime == "onnx")

    ledger.append("tiny", ledger.read("tiny"), "promote", version.version, "a test")
    other = {"torch": "onnx", "onnx": "torch"}[runtime]
    assert isinstance(replica().runtime, opened)
    assert not isinstance(replica(other).runtime, opened)

    served: list[Predictor] = []
    plain = Predictor.predict
    monkeypatch.setattr(Predictor, "predict", lambda self, rows: served.append(self) or plain(self, rows))
    pq.write_table(pa.table({"text": ["犬"]}), "in.parquet")
    batch_scoring.score(Path("in.parquet"), Path("out.parquet"), registry.get("tiny", "champion"))
    assert served
    assert all(isinstance(predictor.runtime, opened) for predictor in served)

    pyfunc = mlflow.pyfunc.load_model("models:/tiny/1")
    labels = [pyfunc.predict(rows)["label"].tolist() for rows in (pd.Series(["犬"], name="text"), [{"text": "犬"}])]
    assert labels[0] == labels[1] == [bertline.load("tiny").predict("犬")]
    opened_version = pyfunc.unwrap_python_model()
    assert opened_version.predictor.runtime.__class__.__name__ == opened.__name__
    opened_version = mlflow.pyfunc.load_model("models:/tiny/1", model_config={"runtime": other}).unwrap_python_model()
    assert opened_version.predictor.runtime.__class__.__name__ != opened.__name__
    with pytest.raises(InputError, match=r"no runtime 'rust'; there are: onnx, torch"):
        mlflow.pyfunc.load_model("models:/tiny/1", model_config={"runtime": "rust"})


@pytest.mark.usefixtures("trained")
def test_a_champion_that_does_not_open_is_reported_once_and_the_old_one_serves(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name_runtime("torch")
    version = retrain.register.fn("tiny")
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    with closing(Catalogue()) as catalogue:
        with pytest.raises(InputError, match="tiny: no alias 'champion'"):
            catalogue.serve({"tiny": Source("tiny")})
        ledger.append("tiny", ledger.read("tiny"), "promote", version.version, "a test")
        catalogue.serve({"tiny": Source("tiny")})
        other = registry.register("tiny", tiny.classifier(Path("other"), seed=9), CODE, "single", {"text": "犬"}, {})
        whole = registry.folder(other) / "model.safetensors"
        weights = whole.read_bytes()
        ledger.append("tiny", ledger.read("tiny"), "promote", other.version, "a test")
        for content, warnings in ((b"", 1), (b"", 0)):
            whole.write_bytes(content)
            catalogue.follow()
            assert capsys.readouterr().err.count("tiny version 1 stays in use: ") == warnings
            assert catalogue["tiny"].version == version
        whole.write_bytes(weights)
        catalogue.follow()
        assert catalogue["tiny"].version == other


@pytest.mark.usefixtures("trained")
def test_a_version_without_a_runtime_tag_answers_by_its_export() -> None:
    name_runtime("torch")
    version = retrain.register.fn("tiny")
    assert (registry.folder(version) / "model.safetensors").is_file()
    MlflowClient().delete_model_version_tag("tiny", "1", "runtime")
    assert (registry.folder(registry.version("tiny", 1)) / "model.onnx").is_file()
