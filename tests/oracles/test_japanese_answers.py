"""Answers in Japanese are compared as each corpus's own published script does: JGLUE's and JaQuAD's, restated here.

JGLUE: yahoojapan/JGLUE, fine-tuning/patch/transformers-4.24.0_jglue-1.1.0.patch, its change of squad_metrics.py.
JaQuAD: SkelterLabsInc/JaQuAD at 23f5d72c, JaQuAD.ipynb, char_f1_score and the cell that scores the dev set.
"""

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines.core import schema
from pipelines.core.task import Task
from pipelines.data.corpora import custom, jaquad, jglue
from pipelines.data.corpora import squad as english
from pipelines.evaluation import answer_scores
from pipelines.evaluation.prediction_scores import score

texts = st.text("東京都 \u3000。、ＡＢab「」.\t", max_size=8)


def overlap(predicted: list[str], meant: list[str]) -> float:
    """F1 of two lists as both scripts have it."""
    if not predicted or not meant:
        return float(predicted == meant)
    same = sum((Counter(predicted) & Counter(meant)).values())
    if not same:
        return 0.0
    precision, recall = same / len(predicted), same / len(meant)
    return 2 * precision * recall / (precision + recall)


def jglue_text(text: str) -> str:
    """remove_punc does nothing, remove_articles strips full stops at the end; then white space is mended."""
    return " ".join(text.lower().rstrip("。").split())


def by_jglue(predicted: str, meant: str) -> tuple[float, float]:
    """compute_exact compares the texts; compute_f1 compares their letters, the spaces between words among them."""
    predicted, meant = jglue_text(predicted), jglue_text(meant)
    return float(predicted == meant), overlap(list(predicted), list(meant))


def by_jaquad(predicted: str, meant: str) -> tuple[float, float]:
    """The letters of the words, as they are; an answer is an exact match where its F1 is 1."""
    f1 = overlap([*"".join(predicted.split())], [*"".join(meant.split())])
    return float(f1 == 1.0), f1


@given(texts, texts)
@example("東京都。", "東京都")
@example("東京 都", "東京　都")
@example("都京", "京都")
@example("。", "")
def test_an_answer_scores_as_by_the_published_scripts(predicted: str, meant: str) -> None:
    for normalization, script in (("jglue", by_jglue), ("jaquad", by_jaquad)):
        expected = script(predicted, meant)
        scores = answer_scores.exact(predicted, meant, normalization), answer_scores.f1(predicted, meant, normalization)
        assert scores == pytest.approx(expected), normalization


# worked by hand
@pytest.mark.parametrize(
    ("normalization", "predicted", "meant", "exact", "f1"),
    [
        ("jglue", "東京都。", "東京都", 1, 1),
        ("jglue", "「東京都」", "東京都", 0, 2 * 3 / (5 + 3)),  # brackets stay
        ("jglue", "ＡＢＣ", "abc", 0, 0),  # no NFKC: wide letters become small wide letters
        ("jglue", "285 km/h", "285 KM/H", 1, 1),
        ("jglue", "285km/h", "285 km/h", 0, 2 * 7 / (7 + 8)),  # the space is a letter too
        ("jaquad", "東京都。", "東京都", 0, 2 * 3 / (4 + 3)),
        ("jaquad", "285km/h", "285 km/h", 1, 1),  # spaces are dropped
        ("jaquad", "285 KM/H", "285 km/h", 0, 2 * 4 / (7 + 7)),  # capitals stay: 2, 8, 5 and / in common
        ("jaquad", "都京", "京都", 1, 1),  # its exact match is an F1 of 1
        ("nfkc", "「ＡＢＣ」。", "abc", 1, 1),
    ],
)
def test_what_the_scripts_keep_and_drop(
    normalization: str, predicted: str, meant: str, exact: float, f1: float
) -> None:
    assert answer_scores.exact(predicted, meant, normalization) == exact
    assert answer_scores.f1(predicted, meant, normalization) == pytest.approx(f1)


def test_each_corpus_names_its_normalization() -> None:
    assert jglue.TASKS["jsquad"].normalization == "jglue"
    assert jaquad.TASKS["jaquad"].normalization == "jaquad"
    assert {task.compared_by for task in english.TASKS.values()} == {"squad"}
    assert jglue.TASKS["jnli"].compared_by == ""  # rows of other kinds have none
    assert set(answer_scores.NORMALIZATIONS) == set(schema.NORMALIZATIONS)


def test_the_metrics_file_names_it_and_only_for_questions() -> None:
    rows = pa.table({"id": ["1"], "answers": [[{"text": "東京都", "start": 0}]]})
    predicted = pa.table({"id": ["1"], "answer": ["「東京都」"]})
    task = Task("t", "span", (), "f1", language="ja")
    records = {name: score(rows, predicted, task.with_(normalization=name)) for name in answer_scores.NORMALIZATIONS}
    assert {name: (record["normalization"], record["metrics"]["exact"]) for name, record in records.items()} == {
        "squad": ("squad", 0.0),
        "nfkc": ("nfkc", 1.0),
        "jglue": ("jglue", 0.0),
        "jaquad": ("jaquad", 0.0),
    }
    labels = pa.table({"id": ["1", "2"], "label": ["a", "b"]})
    assert "normalization" not in score(labels, labels, Task("t", "single", ("a", "b"), "accuracy"))


def test_a_task_that_names_none_is_compared_as_before() -> None:
    assert Task("t", "span", (), "f1", language="ja").compared_by == "nfkc"
    assert Task("t", "span", (), "f1", language="en").compared_by == Task("t", "span", (), "f1").compared_by == "squad"


def test_an_entry_of_a_custom_corpus_names_it(tmp_path) -> None:
    params = custom.Params(kind="span", files={"dev": "a.json"}, format="squad", language="ja", normalization="jglue")
    assert custom.task(tmp_path, "", params).compared_by == "jglue"
    with pytest.raises(ValueError, match="normalization: has no effect on rows of kind single"):
        custom.Params(files={"train": "a.csv"}, normalization="jglue")
    with pytest.raises(ValueError, match="'squad', 'nfkc', 'jglue' or 'jaquad'"):
        custom.Params(kind="span", files={"dev": "a.json"}, normalization="jgleu")
