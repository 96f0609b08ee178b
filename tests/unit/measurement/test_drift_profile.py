"""What drift is measured on, of texts and of answers."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.core import schema, tables
from pipelines.evaluation.drift import SCHEMA
from pipelines.inference.predictor import Predictor
from pipelines.measurement import drift_profile
from pipelines.text import tokenizer
from tests.support import kinds, tiny


def test_texts_are_counted_in_pieces_and_words(tmp_path: Path) -> None:
    loaded = tokenizer.load(tiny.tokenizer(tmp_path))
    texts = ["私は犬が好き。", "", "blorptzang 犬"]
    profile = drift_profile.texts(pa.table({"text": texts}), loaded, "single")
    assert profile.schema == SCHEMA
    piece_ids = [loaded.encode([text]).values.tolist() for text in texts]
    assert profile.column("pieces").to_pylist() == piece_ids
    assert profile.column("unknown_pieces").to_pylist() == [ids.count(loaded.unk_id) for ids in piece_ids]
    assert profile.column("words").to_pylist() == [6, 0, 2]
    assert profile.column("unknown_words").to_pylist() == [0, 0, 1]
    assert profile.column("label").null_count == 3


def test_without_a_dictionary_there_are_no_words(tmp_path: Path) -> None:
    loaded = tokenizer.load(tiny.tokenizer(tmp_path, japanese=False))
    assert drift_profile.texts(pa.table({"text": ["a b"]}), loaded, "single").column("words").null_count == 1


@pytest.mark.parametrize("kind", kinds.TASKS)
def test_a_scored_file_of_every_kind(kind: str, tmp_path: Path) -> None:
    folder = tiny.classifier(tmp_path / "model", kind)
    rows = kinds.rows(kind).drop_columns(schema.TARGETS[kind])
    answers = Predictor.load(folder).predict(rows)
    scored = rows
    for name in set(answers.column_names) - {"id", "scores"}:
        scored = scored.append_column(f"our_{name}", answers.column(name))
    tables.write(tmp_path / "scored.parquet", scored.to_batches(), scored.schema)
    profile = drift_profile.of_scored(tmp_path / "scored.parquet", folder, "our_")
    assert profile.num_rows == rows.num_rows
    assert profile.column("pieces").null_count == 0
    column = "value" if kind == "regression" else "confidence"
    assert profile.column(column).null_count == 0
    assert profile.column("label").null_count == (
        0 if kind in ("single", "pair", "choice", "span") else profile.num_rows
    )


def test_texts_of_views_are_measured_as_others(tmp_path: Path) -> None:
    """Arrow has no kernel that chooses rows of them."""
    folder, profiles = tiny.classifier(tmp_path / "model", "choice"), []
    rows = kinds.rows("choice").drop_columns(schema.TARGETS["choice"])
    for kind in (pa.string(), pa.string_view()):
        types = {"text": kind, "choices": pa.list_(kind)}
        columns = {name: pa.array(rows.column(name).to_pylist(), types.get(name, kind)) for name in rows.column_names}
        pq.write_table(pa.table({**columns, "label": pa.array(["a"] * len(rows), kind)}), tmp_path / "scored")
        profiles.append(drift_profile.of_scored(tmp_path / "scored", folder))
    assert profiles[0].equals(profiles[1])


def test_columns_of_the_file_that_the_model_did_not_write_are_not_its_answers(tmp_path: Path) -> None:
    folder = tiny.classifier(tmp_path / "model", "single")
    rows = kinds.rows("single").drop_columns(schema.TARGETS["single"])
    rows = rows.append_column("answer", pa.array(["by phone"] * rows.num_rows))
    rows = rows.append_column("value", pa.array(["12 EUR"] * rows.num_rows))
    answers = Predictor.load(folder).predict(rows.select(["id", "text"]))
    for name in ("label", "score"):
        rows = rows.append_column(name, answers.column(name))
    tables.write(tmp_path / "scored.parquet", rows.to_batches(), rows.schema)
    profile = drift_profile.of_scored(tmp_path / "scored.parquet", folder)
    assert profile.column("label").to_pylist() == answers.column("label").to_pylist()
    assert profile.column("value").null_count == rows.num_rows


def test_of_a_large_file_the_same_rows_are_drawn_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drift_profile, "MOST_ROWS", 10)
    many = pa.table({"text": [f"{i:03}" for i in range(100)]})
    tables.write(tmp_path / "many.parquet", many.to_batches(7), many.schema)
    drawn = drift_profile.sample(tmp_path / "many.parquet").column("text").to_pylist()
    assert len(set(drawn)) == 10
    assert drawn == sorted(drawn) == drift_profile.sample(tmp_path / "many.parquet").column("text").to_pylist()
