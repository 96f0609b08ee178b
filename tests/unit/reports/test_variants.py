"""Compressed runs beside their teacher, from records made by hand."""

from pathlib import Path
from typing import Any

import pytest

from pipelines.core import json_file, params, paths
from pipelines.reports import page, report_folder, run_tables, variants
from tests.support.records import RECORDS, record, variant

TEACHER = record("big", 0.76, model={"size_bytes": 8_000_000, "parameters": 2_000_000, "flops_per_token": 4_000_000})
INT8 = variant("int8", 0.75, ["dynamic_int8"], size_bytes=2_000_000, flops_per_token=4_000_000)
FEWER = variant("fewer", 0.77, ["drop_layers"], size_bytes=5_000_000, flops_per_token=1_000_000)
BOTH = variant("both", 0.70, ["drop_layers", "q8bert"], size_bytes=1_000_000, flops_per_token=1_000_000, sparsity=0.25)
ALL = [INT8, TEACHER, BOTH, FEWER, *RECORDS]


def test_a_line_for_the_teacher_and_one_for_each_that_was_made_of_it() -> None:
    (group,) = variants.groups(ALL)
    header, lines = variants.table(group)
    assert header == (
        *("run", "methods", "accuracy", "points", "size MB", "size %"),
        *("parameters", "MFLOPs/token", "FLOPs %", "sparsity"),
    )
    assert lines == [
        ("big", "teacher", "0.760", "-", "8.00", "100", "2,000,000", "4.00", "100", "-"),
        ("fewer", "drop_layers", "0.770", "+1.00", "5.00", "62", "1,000,000", "1.00", "25", "-"),
        ("int8", "dynamic_int8", "0.750", "-1.00", "2.00", "25", "1,000,000", "4.00", "100", "-"),
        ("both", "drop_layers, q8bert", "0.700", "-6.00", "1.00", "12", "1,000,000", "1.00", "25", "0.25"),
    ]
    assert variants.groups(RECORDS) == []


def test_sparsity_has_no_column_where_nothing_is_zero() -> None:
    (group,) = variants.groups([TEACHER, INT8])
    header, lines = variants.table(group)
    assert "sparsity" not in header
    assert {len(line) for line in lines} == {len(header)}


def test_the_answer_names_the_smallest_models_within_the_budget() -> None:
    """A point is not more than a point, although 0.76 - 0.75 is a little more than 0.01."""
    (group,) = variants.groups(ALL)
    assert variants.answer(group) == (
        "Of the compressed runs that lose at most 1 point against big, the smallest is int8 (25% of the teacher's), "
        "and the one with the fewest operations is fewer (25% of the teacher's)."
    )
    assert "the smallest is both" in variants.answer(group, budget=0.06)
    assert "at most 6 points" in variants.answer(group, budget=0.06)
    (alone,) = variants.groups([TEACHER, BOTH])
    assert variants.answer(alone) == "Every compressed run loses more than 1 point against big."


@pytest.mark.parametrize("missing", [{"split": "dev"}, {"metrics": {}}, {"task": "another"}, None])
def test_without_the_teachers_score_nothing_is_said_of_a_loss(missing: dict[str, Any] | None) -> None:
    (group,) = variants.groups([INT8, *([] if missing is None else [TEACHER | missing])])
    assert variants.answer(group) == "big has no score on these rows, so the losses are not known."
    line = variants.table(group)[1][-1]
    assert (line[0], line[3]) == ("int8", "-")
    assert page.html([INT8], {}).count("Score by") == 0


def test_each_task_and_teacher_has_its_own_group() -> None:
    other = variant("other-int8", 0.5, ["dynamic_int8"], teacher="other", task="another")
    second = variant("second-int8", 0.5, ["dynamic_int8"], teacher="日本語")
    groups = variants.groups([*ALL, other, second])
    assert [(group.teacher, len(group.variants)) for group in groups] == [("other", 1), ("big", 3), ("日本語", 1)]
    assert [group.own["run"] for group in groups if group.own] == ["other", "big", "日本語"]


def test_the_page_holds_the_table_and_two_pictures() -> None:
    html = page.html(ALL, {})
    assert "<h3>Compressed from big</h3>" in html
    assert "<td>both</td><td>drop_layers, q8bert</td><td class=number>0.700</td><td class=number>-6.00</td>" in html
    assert "the smallest is int8 (25% of the teacher&#x27;s)" in html
    assert html.count("Score by size, of big and the models made from it") == 1
    assert html.count("Score by operations, of big and the models made from it") == 1
    assert "<figcaption>Score by size</figcaption>" not in html, "that of a task where nothing was compressed"
    assert "1 point below it" in html
    assert "<code>bertline compress big</code> plots score by latency on this machine." in html
    assert page.html(ALL, {}) == html


def test_the_text_table_equals_the_page() -> None:
    (group,) = variants.groups(ALL)
    lines = variants.plain(group).splitlines()
    assert lines[0] == "headlines, compressed from big:"
    assert len({run_tables.width(line) for line in lines[1:6]}) == 1
    assert lines[-1] == variants.answer(group)
    assert "| int8 | dynamic_int8 | 0.750 | -1.00 |" in variants.markdown(group)


def test_smaller_but_slower_models_are_named() -> None:
    (group,) = variants.groups(ALL)
    took = {"big": (1.9, 2.1), "int8": (2.2, 2.6), "fewer": (1.0, 1.0)}
    timings = {run: {"latency_ms": {"p50_spread": [*ms]}} for run, ms in took.items()}
    assert variants.slower(group, timings) == "Smaller than big, but slower for a row alone on this machine: int8."
    assert variants.slower(group, {**timings, "int8": timings["fewer"]}) == ""
    assert variants.slower(group, {**timings, "int8": {"latency_ms": {"p50_spread": [2.0, 2.6]}}}) == "", "in the noise"
    assert variants.slower(group, {**timings, "int8": {"latency_ms": {"p50": 9.0}}}) == "", "of an earlier version"
    assert variants.slower(group, {"int8": timings["int8"]}) == "", "the teacher was not measured here"


def test_the_reports_files_hold_it(checkout: Path) -> None:
    paths.metrics("x").parent.mkdir(parents=True)
    for saved in (TEACHER, INT8):
        json_file.write(paths.metrics(saved["run"]), saved)
    Path("params.yaml").write_text("evaluate: {big: {task: headlines}, int8: {task: headlines}}\n")
    report_folder.write(checkout, params.read())
    (group,) = variants.groups([TEACHER, INT8])
    assert (checkout / "table.md").read_text().endswith(f"\n\n{variants.markdown(group)}")
    assert (checkout / "table.txt").read_text().endswith(f"\n\n{variants.plain(group)}")
    assert variants.answer(group).partition("'")[0] in (checkout / "index.html").read_text()


def test_a_run_that_costs_nothing_has_no_place_on_a_logarithmic_scale() -> None:
    free = record("free", 0.5, model={"size_bytes": 0})
    assert [p.name for p in variants.points([free, TEACHER], variants.SIZE, "big")] == ["big"]
    assert variants.points([free], variants.FLOPS) == []
