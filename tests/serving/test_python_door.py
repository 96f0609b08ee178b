"""The Python door gives the numbers of the service, of the batch job and of the commands."""

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient

import bertline
from pipelines.core import schema
from pipelines.inference.predictor import Predictor
from pipelines.serving.app import application
from pipelines.tracking import registry
from tests.support import commands, exported, kinds, served
from tests.support.champion import TEXTS


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported.models(tmp_path_factory)


def test_door_service_and_commands_give_the_same_numbers_for_every_kind(models: Path) -> None:
    catalogue = served.catalogue({kind: models / f"{kind}-onnx" for kind in kinds.TASKS})
    client = TestClient(application(catalogue))
    for kind in kinds.TASKS:
        model, rows = bertline.load(models / f"{kind}-onnx", threads=1), exported.ROWS[kind]
        table = model.table(rows)
        assert table.equals(Predictor.load(models / f"{kind}-onnx", threads=1).predict(pa.Table.from_pylist(rows)))
        response = client.post(f"/predict/{kind}", json={"rows": rows})
        assert response.status_code == 200, response.text
        answers = response.json()["predictions"]
        says = schema.SAYS[kind]
        assert [answer[says] for answer in answers] == table.column(says).to_pylist()
        numbers = "value" if kind == "regression" else "score"
        assert [answer[numbers] for answer in answers] == pytest.approx(table.column(numbers).to_pylist(), abs=1e-6)
    catalogue.close()


def test_a_registered_version_is_opened_and_scores_a_file(version: registry.Version, checkout: Path) -> None:
    models = [bertline.load(name) for name in ("tiny", "tiny@champion", f"tiny@{version.version}")]
    assert [(model.name, model.version) for model in models] == [("tiny", version.version)] * 3
    pq.write_table(pa.table({"text": TEXTS}), checkout / "in.parquet")
    assert bertline.score("tiny@champion", checkout / "in.parquet", checkout / "out.parquet") == len(TEXTS)
    scored, table = pq.read_table(checkout / "out.parquet"), models[0].table(TEXTS)
    assert scored.column("label").to_pylist() == table.column("label").to_pylist() == models[0].predict(TEXTS)
    assert scored.column("score").to_pylist() == pytest.approx(table.column("score").to_pylist(), abs=1e-6)
    assert models[0].embed("犬").shape == (32,)
    (checkout / "in.csv").write_text("text\n犬\n映画\n", encoding="utf-8")
    assert bertline.score("tiny", checkout / "in.csv", checkout / "scored") == 2
    with pytest.raises(bertline.InputError, match="tiny@1: a folder, CSV or JSONL is scored by NAME or NAME@ALIAS"):
        bertline.score("tiny@1", checkout / "in.csv", checkout / "again")
    with pytest.raises(bertline.InputError, match="has a character that cannot be printed"):
        bertline.score("tiny", checkout / "in.csv", checkout / "again", prefix="a\n")
    with pytest.raises(bertline.InputError, match="tiny: no alias 'best'; there are: challenger, champion"):
        bertline.load("tiny@best")


def test_texts_come_from_arguments_files_and_standard_input(
    models: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, texts = models / "single-onnx", ["私は犬が好き。", "試合"]
    expected = [
        {"label": row["label"], "score": row["score"]} for row in bertline.load(folder).table(texts).to_pylist()
    ]

    def predicted(*words: str) -> list[dict[str, Any]]:
        lines = commands.bertline("predict", str(folder), *words, "--json").require(0).out.splitlines()
        return [{name: json.loads(line)[name] for name in ("label", "score")} for line in lines]

    files = {
        "a.txt": "\n\n".join(texts),
        "a.csv": "\n".join(["text", *texts]),
        "a.tsv": "\n".join(["text\tx", *(f"{t}\t1" for t in texts)]),
    }
    files["a.jsonl"] = "\n".join(json.dumps({"text": text}) for text in texts)
    for name, content in files.items():
        (checkout / name).write_text(content, encoding="utf-8")
    pq.write_table(pa.table({"text": texts}), checkout / "a.parquet")
    assert predicted(*texts) == expected
    for name in (*files, "a.parquet"):
        assert predicted(name) == expected, name
    for words in ([], ["-"]):
        monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(texts)))
        assert predicted(*words) == expected
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert predicted() == []
    people = commands.bertline("predict", str(folder), *texts).require(0).out
    assert all(row["label"] in people for row in expected)


REFUSALS = [
    ("predict", "tagging-onnx", ["x"], "is of kind tagging: use `bertline tag`"),
    ("predict", "span-onnx", ["x"], "is of kind span: use `bertline answer`"),
    ("predict", "encoder", ["x"], "is of kind embedding: use `bertline embed` or `bertline fill-mask`"),
    ("tag", "single-onnx", ["x"], "is of kind single: use `bertline predict`"),
    ("answer", "pair-onnx", ["x", "y"], "is of kind pair: use `bertline predict`"),
    ("predict", "pair-onnx", ["x"], "1 given; a model of kind pair takes two texts, or a file of rows"),
    ("predict", "single-onnx", ["rows.csv"], "rows.csv: line 2: no column 'text'; there are: title; name it with"),
    ("predict", "pair-onnx", ["lines.txt"], "lines.txt: line 1: text and text_pair are expected, with a tab between"),
    ("predict", "single-onnx", ["x", "--column", "text"], "--column text: NAME=COLUMN is expected"),
    ("predict", "single-onnx", ["x", "--column", "text=y"], "text: the names of columns need a file"),
    ("fill-mask", "encoder", ["x"], "the text has no [MASK]"),
]


@pytest.mark.parametrize(("command", "model", "words", "sentence"), REFUSALS, ids=[r[3] for r in REFUSALS])
def test_a_refusal_is_one_sentence(
    command: str, model: str, words: list[str], sentence: str, models: Path, checkout: Path
) -> None:
    (checkout / "rows.csv").write_text("title\na\n")
    (checkout / "lines.txt").write_text("a\n")
    ended = commands.bertline(command, str(models / model), *words)
    assert sentence in ended.err
    assert ended.err.count("\n") == 1
    assert ended.status in (1, 2)


def test_each_kind_has_a_table_for_people(models: Path) -> None:
    for command, kind, words in (
        ("predict", "pair", ["私は犬が好き。", "犬"]),
        ("predict", "regression", ["私は犬が好き。"]),
        ("predict", "choice", ["私は犬が好き。", "犬", "映画", "試合"]),
        ("tag", "tagging", ["私は犬が好き。"]),
        ("answer", "span", ["何が好き", exported.CONTEXT]),
    ):
        out = commands.bertline(command, str(models / f"{kind}-onnx"), *words).require(0).out
        assert len(out.splitlines()) >= 2, command
        assert "\x1b" not in out
