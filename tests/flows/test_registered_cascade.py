"""`bertline cascade`: composed, registered, promoted by the gate, opened by every door, and taken back when it errs."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import bertline
from pipelines.core import paths, schema, tables
from pipelines.core.errors import InputError
from pipelines.inference import cascade_watch
from pipelines.inference.cascade import Cascade, Composition
from pipelines.inference.predictor import Predictor
from pipelines.lifecycle import cascades, lineage, promotion, version_here
from pipelines.scoring import batch_scoring, job, manifest
from pipelines.serving import broken_cascades
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.model_sources import Source
from pipelines.tracking import registry
from tests.support import cascades as students
from tests.support import champion, commands, exported, json_answers, raw_http, served, tiny

pytestmark = pytest.mark.slow
TEXTS = students.texts(260)
COMMAND = "cascade tiny small --agreement 0.9 --json"


@pytest.fixture
def registered(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[registry.Version]:
    """The champion of `tiny`, with an export, in a checkout with rows and the export of a run `small` that errs."""
    version = champion.registered(checkout, exported.classifier(tmp_path_factory))
    paths.onnx("small").parent.mkdir(parents=True)
    students.student(registry.folder(version), paths.onnx("small"), -4)
    values = yaml.safe_load(tiny.PARAMS)
    values["finetune"]["small"] = values["finetune"]["tiny"]
    values["export"] = {"small": {}}
    Path("params.yaml").write_text(yaml.safe_dump(values))
    paths.rows("rows").mkdir(parents=True)
    tiny.TASK.with_(name="rows", splits=("train", "dev", "test")).save(paths.rows("rows"))
    for split, part in (("train", TEXTS[:40]), ("dev", TEXTS[40:240]), ("test", TEXTS[240:])):
        rows = [{"id": str(number), "text": text, "label": "film"} for number, text in enumerate(part)]
        batches = tables.batches(rows, schema.ROWS["single"])
        tables.write(paths.rows("rows") / f"{split}.parquet", batches, schema.ROWS["single"])
    yield version
    mlflow.set_tracking_uri(None)


def labels(predictor: Predictor, texts: list[str]) -> list[str]:
    return predictor.predict(pa.table({"text": texts})).column("label").to_pylist()


def test_a_cascade_is_a_version_that_keeps_its_agreement(registered: registry.Version, checkout: Path) -> None:
    facts = json_answers.require_keys("cascade", commands.bertline(COMMAND).require(0).out)
    assert (facts["model"], facts["version"], facts["champion"], facts["rows"]) == ("tiny", 2, 1, 200)
    assert 0 < facts["by_student"] < 1
    assert 0 <= facts["differing"] <= 200 * 0.1
    version = registry.get("tiny", "challenger")
    opened = Predictor.load(registry.folder(version))
    assert isinstance(opened.runtime, Cascade)
    predictors = (opened, Predictor.load(registry.folder(registered)))
    both = zip(*(labels(predictor, TEXTS[40:240]) for predictor in predictors), strict=True)
    assert sum(mine != its for mine, its in both) == facts["differing"]
    assert version_here.read("tiny", "challenger") == (version, registry.folder(version))
    assert bertline.load("tiny@challenger").predict(TEXTS[:1]) == labels(opened, TEXTS[:1])
    path = list(sys.path)
    by_mlflow = mlflow.pyfunc.load_model("models:/tiny/2").predict([{"text": text} for text in TEXTS])
    assert list(by_mlflow["label"]) == labels(opened, TEXTS)
    assert sys.path == path, "the version's code would shadow this project's in spawned processes"
    pq.write_table(pa.table({"text": TEXTS}), "in.parquet")
    batch_scoring.score(Path("in.parquet"), Path("scored.parquet"), version, ray=False)
    assert pq.read_table("scored.parquet").column("label").to_pylist() == labels(opened, TEXTS)
    assert lineage.teachers(version) == [{"model": "tiny", "version": 1}]
    again = json.loads(commands.bertline(COMMAND).require(0).out)
    assert again["version"] == 2, "the same cascade is one version"
    outcome = promotion.promote("tiny", None, None, "a cascade")
    assert (outcome.promoted, outcome.champion) == (True, version)
    with pytest.raises(InputError, match="it is a cascade; name one of the two models in it"):
        cascades.register("tiny", "small", cascades.Goal(0.9))
    assert (
        "version 3 is the challenger"
        in commands.bertline(f"cascade tiny small --agreement 0.8 --champion 1 --rows {rows_file(checkout)}")
        .require(0)
        .out
    )


def rows_file(place: Path) -> Path:
    """Rows without ids and labels, in a file of one's own."""
    pq.write_table(pa.table({"text": TEXTS}), place / "march.parquet")
    return place / "march.parquet"


REFUSED = (
    ("cascade tiny nobody", 2, "no export entry 'nobody'"),
    ("cascade other small", 2, "no promote entry 'other'"),
    ("cascade tiny small --champion 7", 1, "no version '7'"),
    ("cascade tiny small", 1, "200 different rows are too few: an agreement of 0.995"),
    ("cascade tiny small --agreement 1.5", 2, "agreement: 1.5 is not at least 0.5 and below 1"),
    ("cascade tiny small --rows nothing.parquet", 1, "nothing.parquet: no such file"),
)


def test_refusals_are_one_sentence(registered: registry.Version) -> None:
    for words, status, sentence in REFUSED:
        assert sentence in commands.bertline(words).require(status).err
    assert len(registry.versions("tiny")) == 1


@pytest.fixture
def too_daring(registered: registry.Version, monkeypatch: pytest.MonkeyPatch) -> registry.Version:
    """A cascade whose student answers all rows, which its agreement forbids; all rows are compared."""
    monkeypatch.setattr(cascade_watch, "SHARE", 1.0)
    compose = cascades.cascade_folder.compose

    def daring(*arguments: Any) -> tuple[Composition, list[dict[str, Any]]]:
        composition, examples = compose(*arguments)
        composition = replace(composition, threshold=-1.0)
        composition.write(arguments[-1])
        return composition, examples

    monkeypatch.setattr(cascades.cascade_folder, "compose", daring)
    cascades.register("tiny", "small", cascades.Goal(0.9))
    return registry.get("tiny", "challenger")


def write_files(folder: Path, texts: list[str]) -> None:
    folder.mkdir()
    for number in range(3):
        pq.write_table(pa.table({"text": texts}), folder / f"{number}.parquet")


def test_a_job_of_a_cascade_that_errs_ends(too_daring: registry.Version, tmp_path: Path) -> None:
    rows, target = tmp_path / "rows", tmp_path / "scored"
    write_files(rows, TEXTS)
    cause = "tiny version 2, a cascade, answered .* of 260 compared rows otherwise than version 1, .*--to 1, then score"
    for _ in range(2):
        with pytest.raises(InputError, match=cause):
            job.run(rows, target, "tiny", "challenger", job.Options())
        assert [entry["source"] for entry in manifest.read(target).values()] == ["0.parquet"]


def test_a_job_of_a_cascade_that_agrees_counts_compared_rows(
    registered: registry.Version, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cascade_watch, "SHARE", 1.0)
    commands.bertline(COMMAND).require(0)
    rows = tmp_path / "rows"
    write_files(rows, TEXTS[40:240])
    outcome = job.run(rows, tmp_path / "scored", "tiny", "challenger", job.Options())
    assert outcome.summary[manifest.MEASURED]["compared"] == 600
    assert "the champion of the cascade answered 600 of them too" in outcome.sentence()


def test_the_champion_answers_again_where_a_cascade_errs(
    registered: registry.Version, too_daring: registry.Version
) -> None:
    catalogue = Catalogue()
    catalogue.serve({"tiny": Source("tiny", "2")})
    texts = TEXTS[:200]
    expected = np.array(labels(Predictor.load(registry.folder(registered)), texts))
    with served.serving(catalogue) as address:
        rows = json.dumps({"rows": [{"text": text} for text in texts]}).encode()
        first = raw_http.post(address, "/predict/tiny", rows).json()
        assert first["version"] == 2
        broken_cascades.settle(catalogue)
        watched = raw_http.get(address, "/models/tiny").json()["cascade"]
        share = np.mean(expected != [row["label"] for row in first["predictions"]])
        assert share > 0.1
        assert watched["champion"] == 1
        assert watched["compared"] >= len(texts)
        for _ in range(3):
            raw_http.post(address, "/predict/tiny", rows)
            broken_cascades.settle(catalogue)
        now = raw_http.post(address, "/predict/tiny", rows).json()
        assert now["version"] == 1
        assert [row["label"] for row in now["predictions"]] == expected.tolist()
        model = raw_http.get(address, "/models/tiny").json()
        assert (model["refused"]["version"], model["cascade"]) == (2, None)
        assert "compared rows otherwise than version 1" in model["refused"]["reason"]
        catalogue.follow()
        assert catalogue["tiny"].version.version == 1, "it is not taken up again"
