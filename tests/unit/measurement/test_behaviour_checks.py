"""Behaviour checks on real predictions: each kind of check passes and fails where it must."""

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.core.errors import UsageError
from pipelines.core.params import parse
from pipelines.core.schema import INPUTS, TARGETS
from pipelines.entries.evaluate import Check, Evaluate
from pipelines.entries.promote import Promote
from pipelines.evaluation import gates
from pipelines.inference.predictor import Predictor
from pipelines.measurement import behaviour_checks
from tests.support import tiny

TEXTS = [
    "私はA犬が好き。",
    "映画の公開日が決定",
    "新型スマートフォンの予約開始",
    "試合は延長の末に決着した",
    "ABC abc 12",
]
ROWS = pa.table({"id": list("abcde"), "text": TEXTS, "label": [*tiny.LABELS, "film", "film"]})


@pytest.fixture(scope="module")
def predictor(tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    return Predictor.load(tiny.classifier(tmp_path_factory.mktemp("behaviour") / "model"))


def result(predictor: Predictor, split: pa.Table = ROWS, size: int = 2, **check: object) -> dict:
    """Of the split's rows in parts of `size`."""
    return behaviour_checks.check(predictor, partial(split.to_batches, size), {"it": Check.model_validate(check)})[0]


def test_minimum_functionality_checks_compare_labels(predictor: Predictor) -> None:
    labels = predictor.predict(ROWS).column("label").to_pylist()
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, labels, strict=True)]
    assert result(predictor, rows=rows) | {"failures": []} == {
        "name": "it", "kind": "minimum", "rows": 5, "passed": 1.0, "at_least": 1.0, "ok": True, "failures": [],
    }  # fmt: skip
    wrong = next(label for label in tiny.LABELS if label != labels[0])
    checked = result(predictor, rows=[{"text": TEXTS[0], "label": wrong}, *rows[1:]], at_least=0.9)
    assert (checked["passed"], checked["ok"]) == (0.8, False)
    assert checked["failures"] == [{"text": TEXTS[0], "said": labels[0], "wanted": wrong}]
    assert result(predictor, rows=[{"text": TEXTS[0], "label": wrong}, *rows[1:]], at_least=0.8)["ok"]


def test_invariance_looks_only_at_rows_that_change(predictor: Predictor) -> None:
    checked = result(predictor, write="full_width")  # the tokenizer takes both forms for one
    assert (checked["kind"], checked["rows"], checked["passed"]) == ("invariance", 2, 1.0)
    before = predictor.predict(ROWS).column("label").to_pylist()
    candidates = ["犬", "a b c", "映画" * 20, "😀", "決着", "の"]
    labels = predictor.predict(pa.table({"text": candidates})).column("label").to_pylist()
    other, label = next((text, label) for text, label in zip(candidates, labels, strict=True) if label != before[1])
    checked = result(predictor, replace={"^.*$": other})
    assert checked["rows"] == 5
    assert checked["passed"] == before.count(label) / 5 < 1


def test_parts_are_checked_as_the_whole_is(predictor: Predictor) -> None:
    answers = predictor.predict(ROWS).column("label").to_pylist()
    candidates = ["犬", "a b c", "映画" * 20, "😀", "決着", "の"]
    labels = predictor.predict(pa.table({"text": candidates})).column("label").to_pylist()
    rarest, label = min(zip(candidates, labels, strict=True), key=lambda pair: answers.count(pair[1]))
    checks: list[dict] = [{"write": "full_width"}, {"replace": {"^.*$": rarest}}, {"replace": {"ABC abc": "犬"}}]
    for check in checks:  # the last one changes a row of the last part alone
        assert result(predictor, size=1, **check) == result(predictor, size=5, **check)
    failures = result(predictor, replace={"^.*$": rarest})["failures"]
    wrong = [row for row, expected in zip(TEXTS, answers, strict=True) if expected != label]
    assert len(wrong) > behaviour_checks.SHOWN
    assert [failure["wanted"] for failure in failures] == [
        answers[TEXTS.index(text)] for text in wrong[: behaviour_checks.SHOWN]
    ]


def test_direction_is_of_a_probability(predictor: Predictor) -> None:
    after = pa.table({"text": [text + " 犬が好き" for text in TEXTS]})
    a, b = (predictor.predict(rows).column("scores").to_pylist() for rows in (ROWS, after))
    gains = [then[0] - first[0] for first, then in zip(a, b, strict=True)]
    assert min(gains) < 0 < max(gains)
    up = result(predictor, replace={"$": " 犬が好き"}, moves={"film": "up"})
    down = result(predictor, replace={"$": " 犬が好き"}, moves={"film": "down"})
    assert up["kind"] == "direction"
    assert up["passed"] == sum(gain >= 0 for gain in gains) / 5
    assert up["passed"] + down["passed"] == pytest.approx(1)
    assert result(predictor, replace={"$": " 犬が好き"}, moves={"film": "up"}, tolerance=-min(gains) + 1e-6)["ok"]


@pytest.mark.parametrize("kind", ["regression", "span", "tagging", "pair", "choice"])
def test_every_kind_can_be_checked(kind: str, tmp_path: Path) -> None:
    predictor = Predictor.load(tiny.classifier(tmp_path / "model", kind))
    texts: dict[str, list] = {
        "regression": {"text": TEXTS, "text_pair": TEXTS},
        "pair": {"text": TEXTS, "text_pair": TEXTS},
        "span": {"question": TEXTS, "context": TEXTS},
        "tagging": {"text": TEXTS},
        "choice": {"text": TEXTS, "choices": [["犬", "A猫", "B"]] * 5},
    }[kind]
    checked = result(predictor, pa.table(texts), write="full_width", tolerance=1e-4)
    assert checked["rows"] == (5 if kind == "choice" else 2)
    assert checked["ok"]
    target = {"span": "answers", "tagging": "entities"}.get(kind, "label")
    row = {name: column[0] for name, column in texts.items()}
    answer = predictor.predict(pa.table(texts).slice(0, 1)).to_pylist()[0]
    column = {"regression": "value", "span": "answer", "tagging": "entities"}.get(kind, "label")
    expected = [answer[column]] if kind == "span" else answer[column]
    assert result(predictor, pa.table(texts), rows=[{**row, target: expected}], tolerance=1e-4)["ok"]
    other = {"span": ["無い"], "tagging": [{"start": 0, "end": 99, "label": "film"}], "regression": 1e6}
    wrong = other.get(kind) or next(label for label in tiny.LABELS if label != expected)
    assert not result(predictor, pa.table(texts), rows=[{**row, target: wrong}])["ok"]


def test_an_answer_may_be_a_text_or_an_object_with_one(tmp_path: Path) -> None:
    predictor = Predictor.load(tiny.classifier(tmp_path / "model", "span"))
    inputs = {"question": TEXTS[0], "context": TEXTS[1]}
    answer = predictor.predict(pa.table({name: [text] for name, text in inputs.items()}))["answer"][0].as_py()
    assert answer
    for expected in (answer, [answer], {"text": answer}, [{"text": "無い", "start": 0}, {"text": answer, "start": 1}]):
        assert result(predictor, rows=[{**inputs, "answers": expected}])["ok"]
    for wrong in ([], "無い", answer + "無い"):
        assert not result(predictor, rows=[{**inputs, "answers": wrong}])["ok"]


@pytest.mark.parametrize(
    ("kind", "value", "sentence"),
    [
        ("regression", "high", "label is 'high'; a number is expected"),
        ("regression", None, "label is None; a number is expected"),
        ("regression", float("nan"), "label is nan; a number is expected"),
        ("regression", 10**400, "a number is expected"),
        ("span", None, r"answers is None; a text or a list of texts is expected, \[\] for no answer"),
        ("span", [5], "a text or a list of texts is expected"),
        ("tagging", None, "entities is None; a list of entities with start, end, label is expected"),
        ("tagging", [{"start": "0", "end": 1, "label": "film"}], "a list of entities with start, end, label"),
        ("tagging", [{"start": 0, "label": "film"}], "a list of entities with start, end, label is expected"),
        ("tagging", [{"start": 0, "end": 1, "label": "filn"}], "entities: no label 'filn'"),
        ("single", None, "label: no label 'None'"),
    ],
)
def test_a_value_that_no_prediction_can_be_is_refused(kind: str, value: object, sentence: str, tmp_path: Path) -> None:
    predictor = Predictor.load(tiny.classifier(tmp_path / "model", kind))
    row = {**dict.fromkeys(INPUTS[kind], TEXTS[0]), TARGETS[kind]: value}
    with pytest.raises(UsageError, match=rf"behaviour\.it\.rows: row 0: .*{sentence}"):
        result(predictor, rows=[row])


@pytest.mark.parametrize(
    ("check", "sentence"),
    [
        ({}, "either rows, or a change"),
        ({"write": "upper", "rows": [{"text": "x", "label": "film"}]}, "either rows, or a change"),
        ({"rows": [{"text": "x"}]}, "text, label are expected"),
        ({"rows": [{"text": 3, "label": "film"}]}, "behaviour.it.rows"),
        ({"rows": [{"text": "x", "label": "filn"}]}, r"no label 'filn' \(did you mean 'film'\?\)"),
        ({"replace": {"z{9}": "y"}}, "changes no row"),
        ({"replace": {"(": "y"}}, "unterminated subpattern"),
        ({"write": "upper", "columns": ["title"]}, "no text 'title'; there are: text"),
        ({"write": "upper", "moves": {"value": "up"}}, "no number 'value'"),
    ],
)
def test_a_check_that_checks_nothing_is_refused(predictor: Predictor, check: dict, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        result(predictor, **check)
    with pytest.raises(UsageError, match=r"evaluate\.x\.behaviour\.it: no key 'atleast'|behaviour"):
        parse(Evaluate, {"task": "t", "behaviour": {"it": {"atleast": 1}}}, "evaluate.x")


def test_the_gate_counts_them(predictor: Predictor) -> None:
    labels = predictor.predict(ROWS).column("label").to_pylist()
    for row, passed in (({"text": TEXTS[1], "label": labels[1]}, True), ({"text": "犬", "label": "none"}, False)):
        expected = {"film", "phone", "sport"} - {predictor.predict(pa.table({"text": ["犬"]}))["label"][0].as_py()}
        check = {**row, "label": row["label"] if passed else min(expected)}
        challenger = gates.Measured(
            "accuracy", 5, lambda rows: 0.9, labels, 1.0, 1.0, 1, behaviour=[result(predictor, rows=[check])]
        )
        decision = gates.decide(challenger, None, Promote(run="r"))
        assert decision.passed == passed
        assert decision.reasons[-1].startswith(
            "passed: behaviour it" if passed else "refused: behaviour it: 0.0000 of 1 rows"
        )
