"""Training from a data frame: the same model from the same seed, and one sentence for what is wrong."""

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import bertline
from bertline import training_rows
from tests.support import tiny
from tests.support.places import ROOT

WORDS = {"犬": "pet", "映画": "film", "試合": "sport"}
ROWS = [
    {"title": f"私は{word}が好き。{i}", "topic": topic, "other": word, "number": i / 7}
    for i in range(20)
    for word, topic in WORDS.items()
]
NAMES = {"text": "title", "label": "topic"}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.encoder(tmp_path_factory.mktemp("frames") / "encoder")


@pytest.mark.slow
def test_the_same_seed_gives_the_same_model_and_nothing_is_left_behind(encoder: Path, checkout: Path) -> None:
    settings: dict[str, Any] = {"encoder": encoder, "epochs": 2, "learning_rate": 1e-3, "threads": 1, **NAMES}
    model = bertline.train(pd.DataFrame(ROWS), **settings)
    again = bertline.train(pa.Table.from_pylist(ROWS), **settings)
    texts = [row["title"] for row in ROWS]
    assert model.predict_proba(texts).tolist() == again.predict_proba(texts).tolist()
    other = bertline.train(ROWS, seed=2, **settings)
    assert other.predict_proba(texts).tolist() != model.predict_proba(texts).tolist()
    assert model.labels == ("film", "pet", "sport")
    assert (model.report.rows, model.report.dev_rows) == (54, 6)
    assert model.report.metric == "accuracy"
    assert model.report.curve[-1][1]["loss"] > 0
    assert model.task.language == "ja"
    assert list(checkout.iterdir()) == []
    folder = model.save(checkout / "mine")
    del model
    assert bertline.load(folder).predict_proba(texts).tolist() == again.predict_proba(texts).tolist()


@pytest.mark.slow
def test_pairs_and_numbers_are_trained_too(encoder: Path, checkout: Path) -> None:
    settings: dict[str, Any] = {"encoder": encoder, "epochs": 1, "text": "title"}
    pair = bertline.train(ROWS, text_pair="other", label="topic", dev=ROWS[:9], **settings)
    assert (pair.kind, pair.report.dev_rows, pair.report.rows) == ("pair", 9, 60)
    assert pair.predict("a", "b") in pair.labels
    number = bertline.train(ROWS, label="number", dev=0, **settings)
    assert (number.kind, number.report.dev_score, number.report.scores) == ("regression", None, {})
    assert isinstance(number.predict("a"), float)
    assert "no dev rows" in str(number.report)


def test_a_model_that_learned_nothing_is_warned_of(encoder: Path, checkout: Path) -> None:
    model = bertline.train(ROWS, encoder=encoder, epochs=1, learning_rate=1e-9, **NAMES)
    with pytest.raises(bertline.UsageError, match="save it first"):
        pickle.dumps(model)
    (warning,) = model.report.warnings
    assert "it has learned nothing: its answer is" in warning
    assert warning in str(model.report)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"epoch": 3}, r"train: no setting 'epoch' \(did you mean 'epochs'\?\)"),
    ({"epochs": 0}, "train: epochs: 0: input should be greater than 0"),
    ({"patience": 2, "dev": 0}, "train: patience: 2; it needs a split"),
    ({"kind": "sapn"}, "no kind to train 'sapn'; there are: pair, regression, single"),
    ({"kind": "span"}, "kind span is trained from a file: write the questions as SQuAD's JSON, then `bertline new"),
    ({"kind": "tagging"}, "kind tagging is trained from a file: write the rows in CoNLL's columns"),
    ({"kind": "choice"}, r"kind choice is trained from a file: .* by hand \(docs/adding.md\)"),
    ({"kind": "pair"}, "kind pair needs two texts"),
    ({"kind": "regression"}, "topic: row 0 is 'pet'; a number is expected"),
    ({"encoder": "/nowhere"}, "/nowhere: no config.json"),
    ({"encoder": "", "language": "fr"}, "no encoder of the language 'fr'"),
    ({"dev": 2}, "dev: 2; a share from 0 to 1 is expected"),
    ({"dev": "0.1"}, "dev: '0.1'; a share from 0 to 1 is expected, or a table"),
    ({"dev": []}, r"dev: \[\]; a share from 0 to 1 is expected, or a table"),
    ({"dev": pd.DataFrame({"title": [], "topic": []})}, "dev: the table has no rows"),
    ({"dev": [{"title": "a"}]}, "dev: no column 'topic'; there are: title"),
    ({"threads": -1}, "threads: -1; a whole number from 0 is expected"),
    ({"dev": 0.001}, "dev: 0.001 of 60 rows are too few"),
    ({"dev": [{"title": "a", "topic": "q"}]}, "dev: row 0: no label 'q'"),
    ({"max_length": 3}, "train: max_length: 3"),
    ({"max_length": 5000}, "train: max_length: 5000; .* has 64 positions"),
    ({"label": "x"}, "no column 'x'; there are: number, other, title, topic; name the column with label="),
    ({"text": "x"}, "no column 'x'; there are: number, other, title, topic"),
]


@pytest.mark.parametrize(("changes", "sentence"), WRONG, ids=[sentence for _, sentence in WRONG])
def test_what_is_wrong_is_one_sentence(changes: dict[str, Any], sentence: str, encoder: Path, checkout: Path) -> None:
    with pytest.raises(bertline.InputError, match=sentence):
        bertline.train(ROWS, **{"encoder": encoder, **NAMES, **changes})
    assert list(checkout.iterdir()) == []


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([{"text": "a", "label": "x"}, {"text": "b", "label": None}], "label: row 1 is empty"),
        ([{"text": "a", "label": "x"}, {"text": None, "label": "y"}], "text: row 1 is empty"),
        ([{"text": "a", "label": "x"}] * 9, "every row has the label 'x'; two are needed"),
        ([{"text": "a", "label": ""}, {"text": "b", "label": "x"}], "row 0 has an empty label"),
        ([{"text": "a", "label": b"x"}, {"text": "b", "label": b"y"}], "label: row 0 is b'x'; a text, a number or a"),
        ([{"text": "a", "label": "x"}, {"text": "b", "label": ["y"]}], r"label: row 1 is \['y'\]; a text, a number"),
        (pa.table({"text": [1, 2], "label": ["x", "y"]}), "the column 'text' holds int64; text is expected"),
        (pa.table({"text": ["a", None], "label": ["x", "y"]}), "the column 'text': row 1 has no text"),
        ([{"text": "a", "label": "xy"[i % 2]} for i in range(40)], "dev: 0.1 of 40 rows cannot be held out"),
        (["a", "b"], "a data frame, an Arrow table or a list of dicts is expected"),
    ],
)
def test_rows_that_cannot_be_trained_on(rows: list[Any], sentence: str) -> None:
    with pytest.raises(bertline.InputError, match=sentence):
        training_rows.read(rows, training_rows.Columns("text", "label"), "", 0.1, 1)


def test_a_share_is_drawn_from_each_label_and_equal_texts_stay_together() -> None:
    rows = [{"text": f"{label} {i // 2}", "label": label} for label in ("a", "b") for i in range(100)]
    task, splits = training_rows.read(rows, training_rows.Columns("text", "label"), "", 0.2, 3)
    assert task.splits == ("train", "dev")
    counts = splits["dev"].column("label").to_pylist()
    assert (counts.count("a"), counts.count("b")) == (20, 20)
    texts = {name: set(split.column("text").to_pylist()) for name, split in splits.items()}
    assert not texts["train"] & texts["dev"]
    assert sum(split.num_rows for split in splits.values()) == len(rows)
    _, same = training_rows.read(rows, training_rows.Columns("text", "label"), "", 0.2, 3)
    assert same["dev"].equals(splits["dev"])
    numbers = [{"text": str(i), "label": i % 12} for i in range(60)]
    task, _ = training_rows.read(numbers, training_rows.Columns("text", "label"), "", 0, 1)
    assert task.labels == tuple(map(str, range(12))), "numbers stand in their order"
    floats = [{"text": str(i), "label": np.float64(i % 2)} for i in range(9)]
    task, _ = training_rows.read(floats, training_rows.Columns("text", "label"), "", 0, 1)
    assert task.labels == ("0", "1")


def test_pairs_that_share_their_first_text_are_held_out_together() -> None:
    """As the questions about a premise are, whose labels are seldom balanced."""
    columns, labels = (
        training_rows.Columns("text", "label", "question"),
        np.random.default_rng(1).choice(["a", "b"], 1000),
    )
    rows = [{"text": f"premise {i % 10}", "question": str(i), "label": str(label)} for i, label in enumerate(labels)]
    _, splits = training_rows.read(rows, columns, "", 0.1, 1)
    assert splits["dev"].num_rows == 100
    assert len(set(splits["dev"].column("text").to_pylist())) == 1


@pytest.mark.parametrize("share", [0.1, np.float32(0.1), None, 0])
def test_a_share_may_be_any_number_or_none(share: Any) -> None:
    rows = pd.DataFrame([[f"text {i}", "ab"[i % 2]] for i in range(40)])
    numbers: Any = (0, 1)
    task, splits = training_rows.read(rows, training_rows.Columns(*numbers), "", share, 1)
    assert splits["train"].num_rows == (36 if share else 40)
    assert task.labels == ("a", "b")


def test_a_child_that_exits_leaves_the_model_to_its_parent(tmp_path: Path) -> None:
    tiny.classifier(tmp_path / "place" / "model")
    code = (
        "import os, sys; from pathlib import Path; from bertline.training_frame import TrainedModel\n"
        "model = TrainedModel(Path('place'), None, 1)\n"
        "child = os.fork()\n"
        "if not child: sys.exit()\n"
        "os.waitpid(child, 0)\n"
        "assert model.folder.is_dir()\n"
    )
    path = {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, env=os.environ | path)
    assert not (tmp_path / "place").exists()


@pytest.mark.slow
def test_trainings_in_threads_give_the_model_of_a_training_alone(encoder: Path, checkout: Path) -> None:
    def probabilities(_: int) -> list[float]:
        settings: dict[str, Any] = {"encoder": encoder, "epochs": 1, "threads": 1, **NAMES}
        return list(bertline.train(ROWS, **settings).predict_proba("犬"))

    with ThreadPoolExecutor(2) as threads:
        together = list(threads.map(probabilities, range(2)))
    assert together == [probabilities(0)] * 2


@pytest.mark.parametrize("number", [Decimal, np.float32, np.float64, float])
def test_numbers_with_decimals_are_a_regression_in_every_type(number: Any) -> None:
    columns = training_rows.Columns("text", "label")
    rows = [{"text": f"text {i}", "label": number(i) / number(4)} for i in range(40)]
    task, splits = training_rows.read(rows, columns, "", 0, 1)
    assert task.kind == "regression"
    assert splits["train"].column("label").to_pylist()[:3] == [0.0, 0.25, 0.5]
    whole = [{**row, "label": number(i % 2)} for i, row in enumerate(rows)]
    assert training_rows.read(whole, columns, "", 0, 1)[0].labels == ("0", "1")


def test_labels_that_are_no_numbers_for_python_are_texts() -> None:
    columns = training_rows.Columns("text", "label")
    rows = [{"text": f"text {i}", "label": ["--5", "3"][i % 2]} for i in range(4)]
    assert training_rows.read(rows, columns, "", 0, 1)[0].labels == ("--5", "3")
    rows[1]["label"] = "\ud800"
    with pytest.raises(bertline.InputError, match="label: row 1 holds half of a surrogate pair"):
        training_rows.read(rows, columns, "", 0, 1)
