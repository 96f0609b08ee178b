"""A run that has learned nothing is named, with what to try."""

from pipelines.reports import doubtful_runs
from tests.support.records import record


def test_good_runs_are_in_no_doubt() -> None:
    fallen = [[1, {"loss": 2.0}], [9, {"loss": 0.5}]]
    good = record("good", 0.8, curve=fallen)
    assert doubtful_runs.sentences([good, record("svm", 0.7, how="baseline")]) == []
    assert doubtful_runs.sentences([record("elsewhere", 0.9, task="other", how="baseline"), good]) == []
    assert doubtful_runs.sentences([record("unlabelled", 0.0, metrics={}, confusion=None)]) == []


def test_each_doubt_is_told_with_what_to_try() -> None:
    rising = [[1, {"loss": 1.0}], [9, {"loss": 1.5}]]
    runs = [
        record("one", 0.6, only_answer="犬"),
        record("chance", 0.5),
        record("rising", 0.9, curve=rising),
        record("low", 0.55, metric="macro_f1", metrics={"macro_f1": 0.55}),
        record("svm", 0.4, how="baseline", metric="macro_f1", metrics={"macro_f1": 0.4}),
        record("svm2", 0.7, how="baseline", metric="macro_f1", metrics={"macro_f1": 0.7}),
    ]
    assert doubtful_runs.sentences(runs) == [
        "one: it has learned nothing: its answer is '犬' for every row; try more epochs or a higher learning_rate",
        "chance: it has learned nothing: accuracy 0.500, and the most frequent label alone gives 0.500; "
        "try more epochs or a higher learning_rate",
        "rising: its loss did not fall (1.000 to 1.500); try a lower learning_rate, or more epochs",
        "low: its macro_f1 is 0.550, below svm2 with 0.700; try more epochs or a higher learning_rate, more rows, "
        "another encoder, or the baseline itself",
    ]


def test_a_tagger_or_a_reader_that_finds_hardly_anything_is_in_doubt() -> None:
    runs = [
        record(name, score, metric="f1", metrics={"f1": score}, kind=kind)
        for name, score, kind in (("names", 0.073, "tagging"), ("faq", 0.06, "span"), ("found", 0.4, "span"))
    ]
    names, faq = doubtful_runs.sentences(runs)
    assert names.startswith("names: it has learned next to nothing: f1 0.073; try more rows, more epochs")
    assert faq.startswith("faq: it has learned next to nothing: f1 0.060; try more rows, more epochs")
