"""A cascade answers each row with the bits of its student or of its champion, whatever rows stand beside it."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipelines.core.errors import InputError, UsageError
from pipelines.inference import encoder_states, onnx_numbers
from pipelines.inference.cascade import CHAMPION, STUDENT, Cascade, ComparedRows, Composition
from pipelines.inference.predictor import Predictor
from pipelines.inference.runtimes import CASCADE_FILE
from pipelines.measurement import cascade_folder, row_exactness
from pipelines.measurement.cascade_folder import Goal
from tests.support import cascades, exported

pytestmark = pytest.mark.slow
GOAL, SHIFT = Goal(0.9, 0.95), -4
TEXTS = cascades.texts(200)


@pytest.fixture(scope="module")
def champion(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported.models(tmp_path_factory) / "single-onnx"


@pytest.fixture(scope="module")
def student(champion: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cascades.student(champion, tmp_path_factory.mktemp("student") / "onnx", SHIFT)


@pytest.fixture
def composed(champion: Path, student: Path, tmp_path: Path) -> tuple[Path, Composition]:
    (tmp_path / "cascade").mkdir()
    composition, _ = cascade_folder.compose(student, champion, rows(TEXTS), GOAL, 3, tmp_path / "cascade")
    return tmp_path / "cascade", composition


def rows(texts: list[str]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(texts), 64):
        yield pa.RecordBatch.from_pydict({"text": texts[start : start + 64]})


def scores(predictor: Predictor, texts: list[str]) -> list[str]:
    """The bits of each row's scores."""
    table = predictor.predict(pa.table({"text": texts}))
    return [json.dumps(scores) for scores in table.column("scores").to_pylist()]


def test_each_row_has_the_bits_of_the_model_that_answers_it(
    composed: tuple[Path, Composition], champion: Path, student: Path
) -> None:
    folder, composition = composed
    predictor = Predictor.load(folder)
    assert isinstance(predictor.runtime, Cascade)
    ours, sure, theirs = (scores(one, TEXTS) for one in (predictor, Predictor.load(student), Predictor.load(champion)))
    by_student = [mine == its for mine, its in zip(ours, sure, strict=True)]
    assert all(mine in pair for mine, *pair in zip(ours, sure, theirs, strict=True))
    assert sum(by_student) == round(composition.by_student * len(TEXTS))
    assert 0 < composition.by_student < 1, "both answer some rows"
    labels = [np.argmax(json.loads(row)) for row in ours]
    differing = sum(a != np.argmax(json.loads(b)) for a, b in zip(labels, theirs, strict=True))
    assert (composition.rows, composition.differing, composition.champion) == (len(TEXTS), differing, 3)
    assert 0 < differing <= 200 * 0.1
    assert scores(predictor, TEXTS[:1]) == ours[:1]
    for threads in (1, 2):
        alone = Predictor.load(folder, threads=threads)
        assert row_exactness.largest_difference(predictor, sequences=60, partitions=6, alone=alone) == 0


def test_a_cascade_of_pairs(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    champion = exported.models(tmp_path_factory) / "pair-onnx"
    out, student = tmp_path / "cascade", cascades.student(champion, tmp_path / "student", 0.1)
    out.mkdir()
    pairs = pa.table({"text": TEXTS, "text_pair": TEXTS[::-1]})
    composition, examples = cascade_folder.compose(student, champion, pairs.to_batches(), GOAL, 3, out)
    answers = [Predictor.load(folder).predict(pairs).column("label").to_pylist() for folder in (out, champion)]
    assert sum(ours != theirs for ours, theirs in zip(*answers, strict=True)) == composition.differing
    assert Predictor.load(out).predict(pa.Table.from_pylist(examples)).num_rows == cascade_folder.SMOKE_ROWS


def test_checks_change_no_answer_and_count_what_differs(composed: tuple[Path, Composition]) -> None:
    folder, composition = composed
    predictor = Predictor.load(folder)
    before = scores(predictor, TEXTS)
    assert predictor.runtime.compared.rows == 0
    predictor.runtime.compared = ComparedRows(1.0)
    assert scores(predictor, TEXTS) == before
    assert predictor.runtime.compared.rows == len(TEXTS)
    assert predictor.runtime.compared.differing == composition.differing


def test_a_row_that_occurs_again_counts_once(champion: Path, student: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"28 different rows are too few: an agreement of 0\.9 .* needs 29 or more"):
        cascade_folder.compose(student, champion, rows(TEXTS[:28] * 9), GOAL, 3, tmp_path)
    assert not list(tmp_path.iterdir())


def test_models_that_do_not_fit_are_refused(
    champion: Path, student: Path, composed: tuple[Path, Composition], tmp_path_factory: pytest.TempPathFactory
) -> None:
    models, place = exported.models(tmp_path_factory), tmp_path_factory.mktemp("refused")
    for student_of, second, sentence in (
        (models / "tagging-onnx", champion, "of kind tagging; a cascade needs one label a row: single, pair"),
        (models / "single", champion, r"no model\.onnx"),
        (composed[0], champion, "it is a cascade"),
        (models / "pair-onnx", champion, "it has another kind than"),
    ):
        with pytest.raises(InputError, match=sentence):
            cascade_folder.compose(student_of, second, rows(TEXTS), GOAL, 1, place)
    first = cascades.student(champion, place / "first", 900)  # it gives each row the first label
    answers = [np.argmax(json.loads(row)) for row in scores(Predictor.load(champion), TEXTS)]
    others = [text for text, answer in zip(TEXTS, answers, strict=True) if answer]
    with pytest.raises(InputError, match="it is sure of no row"):
        cascade_folder.compose(first, champion, rows(others[:30]), Goal(0.96, 0.7), 1, place)
    for wrong in (Goal, lambda value: Goal(confidence=value)):
        with pytest.raises(UsageError, match=r"is not at least 0\.5 and below 1"):
            wrong(1.0)


def test_damaged_cascades_are_refused(
    composed: tuple[Path, Composition], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, _ = composed
    onnx_numbers.require(folder)
    with pytest.raises(InputError, match="it is a cascade, and states"):
        encoder_states.digest(folder)
    file = folder / CASCADE_FILE
    whole = file.read_text()
    damaged = whole.replace('"rows": 200', '"rows": "x"')
    for text, sentence in (("{}", "threshold"), ("[]", "cascade"), (damaged, "rows")):
        file.write_text(text)
        with pytest.raises(InputError, match=sentence):
            Predictor.load(folder)
    file.write_text(whole)
    (folder / STUDENT / "model.onnx").write_bytes(b"")
    with pytest.raises(InputError, match="not an exported model"):
        Predictor.load(folder)
    (folder / CHAMPION).rename(folder.parent / "elsewhere")
    (folder / CHAMPION).symlink_to(folder.parent / "elsewhere")
    shutil.rmtree(folder / STUDENT)
    shutil.copytree(folder / CHAMPION, folder / STUDENT)
    with pytest.raises(InputError, match="'champion' lies outside this folder"):
        Predictor.load(folder)
