"""The page shows what the metrics files hold."""

import re

from pipelines.reports import page, plots, run_tables
from tests.support.records import RECORDS, record, variant


def test_the_page_holds_a_section_for_each_task_and_nothing_unescaped() -> None:
    html = page.html(RECORDS, {})
    assert html.count("<h2 id=") == html.count('<a href="#') == 2
    assert html.count("<svg") == 5  # one run alone has no sizes to compare
    assert (
        "<tr><td>犬</td><td class=number>0.500</td><td class=number>0.250</td><td class=number>0.333</td></tr>" in html
    )
    assert "<tr><td>1 to 9 characters</td><td class=number>7</td><td class=number>0.875</td></tr>" in html
    assert "expected calibration error 0.125" in html
    assert "日本語: 12 rows of headlines/test" in html
    assert "<b>" not in html
    assert not re.search(r"""(src|href)=["']?(http|//)""", html)  # it opens without a network
    assert page.html(RECORDS, {}) == html


def test_the_teacher_is_shown_in_detail_beside_the_best_baseline() -> None:
    svm, weak = record("svm", 0.9, how="baseline"), record("weak-svm", 0.3, how="baseline")
    best, teacher = record("best", 0.8), record("big", 0.7)
    ranked = run_tables.ranked([svm, weak, best, teacher, variant("small", 0.85, ["drop_layers"])])
    assert [record["run"] for record in page.detailed(ranked)] == ["big", "svm"]
    assert [record["run"] for record in page.detailed(run_tables.ranked([svm, weak, best]))] == ["best", "svm"]
    assert [record["run"] for record in page.detailed([svm, weak])] == ["svm"]
    assert page.detailed([record("blind", 0, metrics={})]) == []
    html = page.html([svm, best], {})
    assert "<th>class</th><th class=number>precision of best</th>" in re.sub(r"\s+<", "<", html)
    assert "F1 of svm</th>" in html
    assert "accuracy of best</th><th class=number>accuracy of svm</th>" in re.sub(r"\s+<", "<", html)
    assert "best: 12 rows of headlines/test" in html
    assert "svm: confidence and accuracy" in html


def test_runs_on_several_splits_have_a_section_each_with_the_baseline_of_the_split() -> None:
    runs = [record("model", 0.9, split="dev"), record("model", 0.8), record("svm", 0.3, how="baseline")]
    html = page.html(runs, {})
    dev, test = html.split("<h2 id=")[1:]
    assert dev.startswith('"headlines/dev">headlines/dev</h2>')
    assert "svm" not in dev
    assert test.startswith('"headlines/test">')
    assert "F1 of svm</th>" in test
    assert '<a href="#headlines/dev">' in html


def test_a_run_without_a_score_comes_last_and_has_no_picture() -> None:
    unscored = record("blind", 0, metrics={}, task="another")
    for name in ("confusion", "interval", "classes", "slices", "calibration"):
        del unscored[name]
    assert [r["run"] for r in run_tables.ranked([unscored, *RECORDS])][:2] == ["other", "blind"]
    assert run_tables.line(unscored)[4] == "-"
    assert page.html([unscored], {}).count("<svg") == 0


def test_what_an_encoder_learned_is_shown() -> None:
    curve = [[10, {"loss": 7.5}], [20, {"loss": 6.25, "mlm_loss": 6.5, "mlm_accuracy": 0.125}]]
    encoder = {"run": "mini", "objective": "mlm", "parameters": 1234, "metrics": curve[-1][1], "curve": curve}
    html = page.html(RECORDS, {}, [encoder])
    assert html.count("<svg") == 6
    assert "<td>mlm_accuracy</td><td class=number>0.125</td>" in html
    assert "mini: mlm, 1,234 parameters; losses by step" in html
    assert "held out: mlm" in html


def test_a_tasks_rows_are_shown() -> None:
    numbers = {"rows": 4, "lengths": {"0": 1, "30": 3}, "labels": {"a": 3, "犬": 1}}
    quality = {"splits": {"train": numbers, "test": {"rows": 1, "lengths": {"10": 1}, "labels": {"None": 1}}}}
    html = page.html(RECORDS, {"headlines": quality})
    assert html.count("<svg") == 6
    assert "Rows of headlines by length and by label" in html
    text = {"splits": {"train": {"rows": 4, "lengths": {"0": 4}}}}  # text to pretrain on has no labels
    assert plots.lengths_and_labels(text).startswith("<svg")


def test_behaviour_is_shown_for_every_run() -> None:
    checks = [
        {"name": "width", "kind": "invariance", "rows": 9, "passed": 1.0, "at_least": 0.9, "ok": True},
        {"name": "plain", "kind": "minimum", "rows": 4, "passed": 0.25, "at_least": 0.5, "ok": False},
    ]
    html = page.html([record("a", 0.5, behaviour=checks), record("b", 0.4, behaviour=checks[:1])], {})
    assert html.count("<td>width</td><td>invariance</td><td class=number>9</td>") == 2
    assert html.count(">passes<") == 2
    assert html.count(">fails<") == 1
