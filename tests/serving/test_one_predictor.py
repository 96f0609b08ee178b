"""evaluate, the HTTP service, the batch job and the registered model give the same predictions."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import mlflow
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.core.errors import InputError
from pipelines.export import onnx_export
from pipelines.inference import runtimes
from pipelines.inference.predictor import Predictor
from pipelines.scoring import batch_scoring
from pipelines.tracking import registry
from tests.support import exported, stores, tiny
from tests.support.champion import TEXTS
from tests.support.places import CODE, ROOT


def test_a_rows_company_does_not_change_its_prediction(checkout: Path) -> None:
    predictor = Predictor.load(tiny.classifier(checkout / "model"))
    rows = pa.table({"text": TEXTS})
    together = predictor.predict(rows).to_pylist()
    assert predictor.truncated == 3
    assert len({row["label"] for row in together}) > 1
    alone = [predictor.predict(rows.slice(i, 1)).to_pylist()[0] for i in range(rows.num_rows)]
    backwards = predictor.predict(rows.take(list(range(rows.num_rows))[::-1])).to_pylist()[::-1]
    for one, other, third in zip(together, alone, backwards, strict=True):
        assert one["label"] == other["label"] == third["label"]
        assert one["scores"] == pytest.approx(other["scores"], abs=1e-5)
        assert one["scores"] == pytest.approx(third["scores"], abs=1e-5)
        assert sum(one["scores"]) == pytest.approx(1, abs=1e-5)
    assert predictor.predict(rows.slice(0, 0)).num_rows == 0


def test_onnx_predicts_what_torch_does(checkout: Path) -> None:
    folder = tiny.classifier(checkout / "model")
    (checkout / "onnx").mkdir()
    assert onnx_export.export(folder, checkout / "onnx", 18, 1e-4) < 1e-4
    rows = pa.table({"text": TEXTS})
    torch_, onnx = (Predictor.load(f, r).predict(rows) for f, r in ((folder, "torch"), (checkout / "onnx", "onnx")))
    assert onnx.column("label").equals(torch_.column("label"))
    assert onnx.column("score").to_pylist() == pytest.approx(torch_.column("score").to_pylist(), abs=1e-5)


def test_a_version_with_an_export_answers_without_torch(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stores.place_in(checkout)
    made = exported.classifier(tmp_path_factory)
    folder = made / "model"
    example = {"text": "犬"}
    version = registry.register("both", folder, CODE, "single", example, {"run": "tiny"}, made / "onnx")
    assert isinstance(Predictor.load(registry.folder(version)).runtime, runtimes.Onnx)
    assert isinstance(Predictor.load(registry.folder(version, "torch")).runtime, runtimes.Torch)
    code = (
        "import sys, pyarrow; from pipelines.serving import app; from pipelines.tracking import registry\n"
        "from pipelines.inference.predictor import Predictor\n"
        "version = registry.get('both', 'challenger')\n"
        "said = Predictor.load(registry.folder(version)).predict(pyarrow.table({'text': ['犬']}))\n"
        "assert said.num_rows == 1 and not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
    only_torch = registry.register("tiny", folder, CODE, "single", example, {"run": "tiny"})
    with pytest.raises(InputError, match="tiny version 1 was registered without onnx; add its run to export: and"):
        registry.folder(only_torch, "onnx")
    mlflow.set_tracking_uri(None)


def test_wrong_rows_are_one_sentence(checkout: Path) -> None:
    predictor = Predictor.load(tiny.classifier(checkout / "model"))
    with pytest.raises(InputError, match=r"no column 'text' \(did you mean 'txt'\?\); there are: txt"):
        predictor.predict(pa.table({"txt": ["a"]}))
    with pytest.raises(InputError, match="row 1 has no text"):
        predictor.predict(pa.table({"text": ["a", None]}))
    with pytest.raises(InputError, match="holds int64; text is expected"):
        predictor.predict(pa.table({"text": [1]}))


@pytest.mark.parametrize("missing", ["tokenizer_config.json", "model.safetensors", "config.json", "task.json"])
def test_a_model_folder_that_is_not_whole_is_one_sentence(missing: str, checkout: Path) -> None:
    folder = tiny.classifier(checkout / "model")
    (folder / missing).unlink()
    with pytest.raises(InputError, match=missing):
        Predictor.load(folder)


def test_a_model_folder_without_all_its_weights_is_refused(checkout: Path) -> None:
    folder = tiny.classifier(checkout / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"intermediate_size": 65}))
    with pytest.raises(InputError, match=r"6 weights that its config\.json requires are missing or of another size"):
        Predictor.load(folder)


def test_the_registered_model_answers_in_plain_columns(version: registry.Version) -> None:
    wanted = Predictor.load(registry.folder(version)).predict(pa.table({"text": TEXTS})).to_pylist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mlflow.pyfunc.load_model("models:/tiny@champion")
    found = model.predict(pd.DataFrame({"text": TEXTS}))
    assert list(found.columns) == ["label", "score"]
    assert found["label"].tolist() == [row["label"] for row in wanted]
    assert found["score"].tolist() == pytest.approx([row["score"] for row in wanted], abs=1e-6)
    assert set(tiny.LABELS) < set(model.predict(pd.DataFrame({"text": TEXTS}), params={"scores": True}).columns)
    pickled = [p for p in registry.folder(version).parent.parent.rglob("*") if p.suffix in {".pkl", ".bin", ".pt"}]
    assert pickled == []


def test_the_batch_job_keeps_every_column_and_stamps_every_row(version: registry.Version, checkout: Path) -> None:
    rows = pa.table({"id": [str(i) for i in range(len(TEXTS))], "text": TEXTS, "extra": list(range(len(TEXTS)))})
    pq.write_table(rows, checkout / "in.parquet")
    assert batch_scoring.score(checkout / "in.parquet", checkout / "out.parquet", version) == len(TEXTS)
    found = pq.read_table(checkout / "out.parquet")
    assert found.select(rows.column_names).equals(rows)
    wanted = Predictor.load(registry.folder(version)).predict(rows)
    assert found.column("label").to_pylist() == wanted.column("label").to_pylist()
    assert found.column("score").to_pylist() == pytest.approx(wanted.column("score").to_pylist(), abs=1e-6)
    assert set(found.column("model_name").to_pylist()) == {"tiny"}
    assert set(found.column("model_version").to_pylist()) == {version.version}
    with pytest.raises(InputError, match="it already has a column 'label'"):
        batch_scoring.score(checkout / "out.parquet", checkout / "again.parquet", version)
    assert not (checkout / "again.parquet").exists()
    again = checkout / "again.parquet"
    assert batch_scoring.score(checkout / "out.parquet", again, version, prefix="new_") == len(TEXTS)


def test_the_batch_job_takes_categories_and_writes_few_row_groups(
    version: registry.Version, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_scoring, "BATCH_ROWS", 4)
    rows = pa.table({"text": TEXTS})
    for kind in (pa.dictionary(pa.int32(), pa.string()), pa.string_view(), pa.string()):
        pq.write_table(rows.cast(pa.schema([("text", kind)])), checkout / "in.parquet", row_group_size=3)
        assert batch_scoring.score(checkout / "in.parquet", checkout / "out.parquet", version) == len(TEXTS)
        file = pq.ParquetFile(checkout / "out.parquet")
        assert file.metadata.num_row_groups == 1
        assert file.schema_arrow.field("text").type == kind
        assert file.read(["text"]).column("text").cast(pa.string()) == rows.column("text")
    pq.write_table(rows.slice(0, 0), checkout / "in.parquet")
    assert batch_scoring.score(checkout / "in.parquet", checkout / "out.parquet", version) == 0
    assert pq.ParquetFile(checkout / "out.parquet").metadata.num_row_groups == 0
    assert "label" in pq.read_schema(checkout / "out.parquet").names


def test_the_batch_job_replaces_what_it_wrote_and_nothing_else(version: registry.Version, checkout: Path) -> None:
    source, target = checkout / "in.parquet", checkout / "out.parquet"
    pq.write_table(pa.table({"text": TEXTS}), source)
    batch_scoring.score(source, target, version)
    pq.write_table(pa.table({"text": TEXTS[:2]}), source)
    assert batch_scoring.score(source, target, version) == 2
    assert pq.read_metadata(target).num_rows == 2
    pq.write_table(pa.table({"text": TEXTS}), checkout / "other.parquet")
    for place in (target, source, checkout / "notes.txt", checkout / "folder", checkout / "dangling"):
        if not place.exists():
            {"notes.txt": lambda p: p.write_text("mine"), "folder": Path.mkdir}.get(
                place.name, lambda p: p.symlink_to("nowhere")
            )(place)
        before = place.read_bytes() if place.is_file() else sorted(checkout.iterdir())
        with pytest.raises(InputError, match="exists, and is not from scoring"):
            batch_scoring.score(checkout / "other.parquet", place, version)
        assert (place.read_bytes() if place.is_file() else sorted(checkout.iterdir())) == before
    assert not list(checkout.glob(".*.partial"))


def test_a_row_of_five_million_characters_is_scored(version: registry.Version, checkout: Path) -> None:
    pq.write_table(pa.table({"text": ["映画の公開日が決定、監督が語る。" * 320_000, "犬"]}), checkout / "in.parquet")
    assert batch_scoring.score(checkout / "in.parquet", checkout / "out.parquet", version) == 2


def test_a_row_without_text_is_named_before_any_is_scored(
    version: registry.Version, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_scoring, "Scorer", None)
    pq.write_table(pa.table({"text": ["犬"] * 4500 + [None]}), checkout / "in.parquet")
    for ray in (False, True):
        with pytest.raises(InputError, match=r"in\.parquet: the column 'text': row 4500 has no text"):
            batch_scoring.score(checkout / "in.parquet", checkout / "out.parquet", version, ray=ray)
