"""Tables of runs, for a terminal and as Markdown."""

from pipelines.reports import run_tables
from tests.support.records import RECORDS, record


def test_the_best_of_each_task_comes_first() -> None:
    assert [r["run"] for r in run_tables.ranked(RECORDS)] == ["other", "日本語", "worse"]


def test_columns_align_on_a_terminal() -> None:
    lines = run_tables.plain(RECORDS).splitlines()
    assert lines[2] == "日本語  full      headlines  accuracy  0.750  0.650 to 0.850      2.5"
    assert lines[3] == "worse   full      headlines  accuracy  0.500  0.400 to 0.600      2.5"
    assert len({run_tables.width(line) for line in lines}) == 1


def test_what_a_run_took_here_stands_beside_it() -> None:
    timings = {"日本語": {"latency_ms": {"p50": 1.25}, "rows_per_second": 12345}}
    lines = run_tables.timed(RECORDS, timings).splitlines()
    assert lines[0].split() == " ".join((*run_tables.HEADER, *run_tables.TIMED)).split()
    assert lines[2] == "日本語  full      headlines  accuracy  0.750  0.650 to 0.850      2.5        1.25  12,345"
    assert lines[3] == "worse   full      headlines  accuracy  0.500  0.400 to 0.600      2.5           -       -"
    assert [line.split("      2.5")[0] for line in lines[1:]] == [
        line.split("      2.5")[0] for line in run_tables.plain(RECORDS).splitlines()[1:]
    ]


def test_runs_on_several_splits_are_ranked_apart_and_the_split_is_named() -> None:
    several = [*RECORDS, record("dev", 0.9, split="dev")]
    assert [r["run"] for r in run_tables.ranked(several)] == ["other", "dev", "日本語", "worse"]
    lines = run_tables.plain(several).splitlines()
    assert lines[0].split()[:5] == ["run", "kind", "task", "split", "metric"]
    assert [line.split()[3] for line in lines[1:]] == ["test", "dev", "test", "test"]
    assert run_tables.timed(several, {}).splitlines()[2].split()[:4] == ["dev", "full", "headlines", "dev"]
    assert run_tables.markdown(several).splitlines()[1] == "| --- | --- | --- | --- | --- | ---: | ---: | ---: |"


def test_markdown_has_a_row_for_each_run() -> None:
    lines = run_tables.markdown(RECORDS).splitlines()
    assert lines[1] == "| --- | --- | --- | --- | ---: | ---: | ---: |"
    assert lines[2] == "| other | baseline | another | accuracy | 0.100 | 0.000 to 0.200 | 2.5 |"
    assert len(lines) == 5


def test_slices_of_one_name_and_other_rows_stand_apart() -> None:
    short = {"slice": "1 to 9 characters", "rows": 7, "score": 0.5}
    osaka, kyoto = ({"slice": name, "rows": 2, "score": 0.5, "pattern": name} for name in ("osaka", "kyoto"))
    o, nara = {**osaka, "rows": 3, "pattern": "o"}, {**kyoto, "rows": 1, "slice": "nara", "score": None}
    parts = {"tickets": [short, osaka, kyoto], "words": [{**short, "score": 0.25}, o, nara]}
    header, lines = run_tables.slices([{"run": run, "metric": "f1", "slices": of} for run, of in parts.items()])
    assert header == ("slice", "rows", "f1 of tickets", "f1 of words")
    assert lines == [
        ("1 to 9 characters", "7", "0.500", "0.250"),
        ("osaka (tickets)", "2", "0.500", "-"),
        ("kyoto", "2", "0.500", "-"),
        ("osaka (words)", "3", "-", "0.500"),
        ("nara", "1", "-", "-"),
    ]
    assert run_tables.slices([{"run": "a", "metric": "f1"}]) == ((), [])
