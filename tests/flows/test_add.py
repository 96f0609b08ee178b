"""`bertline add`: new rows of a table join a corpus of one's own, and what must not join it is counted and named."""

import csv
import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.core import params
from pipelines.data import additions, appending
from pipelines.data.corpora import custom
from tests.support import commands, tickets

ENTRY = """prepare:
  mine: {{corpus: custom, source: {source}, {more}}}
evaluate: {{mine: {{task: mine}}, other: {{task: none}}}}
baseline: {{mine-baseline: {{task: mine}}}}
"""
SPLIT = "split: {test: 0.2, seed: 1}"


def entry(source: str, more: str = SPLIT) -> None:
    Path("params.yaml").write_text(ENTRY.format(source=source, more=more), encoding="utf-8")


def table(
    file: str, rows: list[tuple[str, ...]], encoding: str = "utf-8", delimiter: str = ",", end: str = "\n"
) -> Path:
    with Path(file).open("w", encoding=encoding, newline="") as out:
        csv.writer(out, delimiter=delimiter, lineterminator=end).writerows(rows)
    return Path(file)


def added(file: str, status: int = 0) -> str:
    ended = commands.bertline("add", file, "--to", "mine").require(status)
    return ended.err if status else ended.out


def splits(source: str) -> dict[str, str]:
    """The split of each text, as prepare reads the file."""
    options = params.options(params.entry("prepare", "mine", _entry()), custom.Params, "")
    raw, task = Path(source), custom.task(Path(source), "", options)
    return {row["text"]: split for split in options.splits for row in custom.parse(raw, task, split, options)}


def _entry() -> type:
    from pipelines.entries.prepare import Prepare

    return Prepare


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize(
    ("encoding", "delimiter", "end"),
    [("utf-8", ",", "\n"), ("cp932", ";", "\r\n"), ("utf-16", "\t", "\r\n"), ("utf-8-sig", ",", "\r\n")],
)
def test_new_rows_join_in_the_files_own_form(encoding: str, delimiter: str, end: str) -> None:
    rows = tickets.texts("ja", 120)
    mine = table("mine.csv", [("day", "text", "label"), *(("1", *row) for row in rows)], encoding, delimiter, end)
    last = end.encode({"utf-16": "utf-16-le", "utf-8-sig": "utf-8"}.get(encoding, encoding))
    mine.write_bytes(mine.read_bytes().removesuffix(last))
    written = json.dumps(delimiter)
    entry("mine.csv", f"encoding: {encoding}, delimiter: {written}, {SPLIT}")
    before, was = mine.read_bytes(), splits("mine.csv")
    fresh = [('お支払い、"領収書"', "billing"), ("改行\nのある文です", "bug"), *tickets.texts("ja", 30, seed=7)]
    table("march.csv", [("label", "text", "who"), *((label, text, "x") for text, label in fresh)], delimiter=";")
    output = added("march.csv")
    now = splits("mine.csv")
    assert mine.read_bytes().startswith(before)
    assert {*now} - {*was} == {text for text, _ in fresh}
    assert f"mine.csv: {len(fresh)} rows are added; train {list(was.values()).count('train')} -> " in output
    assert "next: bertline run evaluate@mine baseline@mine-baseline\n" in output
    with mine.open(encoding=encoding, newline="") as file:
        records = list(csv.reader(file, delimiter=delimiter))
    assert records[121] == ["", *fresh[0]]
    assert len({*map(len, records)}) == 1
    assert f"{len(fresh)} rows repeat a text" in added("march.csv")  # a second time


@pytest.mark.usefixtures("checkout")
def test_what_must_not_join_is_counted_and_named() -> None:
    rows = tickets.texts("en", 90)
    table("train.csv", [("text", "label"), *rows[:60]])
    table("test.csv", [("text", "label"), *rows[60:]])
    entry(".", "files: {train: train.csv, test: test.csv}")
    near = f"{rows[70][0]}!"
    fresh = [("a quite new text about a refund", "billing"), ("a second new one, which freezes", "freezing")]
    march = [rows[3], (rows[4][0], "other"), (near, rows[70][1]), fresh[0], fresh[0], fresh[1]]
    table("march.csv", [("text", "label"), *march])
    output = added("march.csv").splitlines()
    assert output[:5] == [
        "march.csv: 2 rows repeat a text, and are left out: line 2, line 6",
        "march.csv: 1 rows repeat a text with another target, and are left out: line 3",
        "march.csv: 1 rows are similar to a row of the test, and are left out: line 4",
        "march.csv: 1 rows have the label 'freezing', which is new",
        "train.csv: 2 rows are added; train 60 -> 62, test 30 -> 30",
    ]
    assert not any("do not compare" in line for line in output)
    assert Path("train.csv").read_text().endswith("\n" + "".join(f"{','.join(row)}\n" for row in [
        (fresh[0][0], "billing"), ('"a second new one, which freezes"', "freezing")]))  # fmt: skip
    Path("train.csv.dvc").touch()
    table("april.csv", [("text", "label"), ("the price of an order is wrong", "billing")])
    assert "next: dvc add train.csv\n" in added("april.csv")


@pytest.mark.usefixtures("checkout")
def test_a_row_that_the_entry_cannot_have_stops_all() -> None:
    table("mine.csv", [("text", "label", "n"), *((*row, str(i)) for i, row in enumerate(tickets.texts("en", 60)))])
    before = Path("mine.csv").read_bytes()
    entry("mine.csv", f"labels: [billing, bug, how-to], columns: {{id: n}}, encoding: cp932, {SPLIT}")
    wrong = [("new text one", "bugg", "80"), ("new text two €", "bug", "81"), ("new text three", "", "82")]
    table("march.csv", [("text", "label", "n"), *wrong])
    assert "march.csv: line 2: no label 'bugg' (did you mean 'bug'?)" in added("march.csv", status=1)
    table("march.csv", [("text", "label", "n"), *wrong[1:]])
    assert "march.csv: line 2: '€' is not in cp932, the encoding of mine.csv" in added("march.csv", status=1)
    table("march.csv", [("text", "label", "n"), ("new text four", "bug", "7")])
    assert "1 ids occur twice or are in mine.csv already, such as '7'" in added("march.csv", status=1)
    table("march.csv", [("body", "label", "n"), ("new text four", "bug", "90")])
    assert "no column 'text'" in added("march.csv", status=1)
    assert Path("mine.csv").read_bytes() == before
    assert not [*Path().glob("*.partial"), *Path().glob(".*.partial")]
    entry("mine.csv", f"labels: [billing, bug, how-to], leave_out: [broken], {SPLIT}")
    table("march.csv", [("text", "label", "n"), wrong[0], ("new text five", "bug", "90")])
    output = added("march.csv")
    assert "1 rows are broken, and are left out: march.csv: line 2: no label 'bugg'" in output
    assert "mine.csv: 1 rows are added" in output


@pytest.mark.usefixtures("checkout")
def test_rows_without_a_text_or_a_label_are_told() -> None:
    table("mine.csv", [("text", "label"), *tickets.texts("en", 60)])
    entry("mine.csv", f"labels: [billing, bug, how-to], {SPLIT}")
    table("march.csv", [("text", "label"), ("", "bug"), (tickets.texts("en", 60)[0][0], "")])
    output = added("march.csv").splitlines()
    assert output[:2] == [
        "march.csv: 1 rows repeat a text, and are left out: line 3",
        "march.csv: 1 rows have no text; `leave_out: [empty]` leaves them out: line 2",
    ]


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("form", ["tsv", "jsonl", "json", "parquet"])
def test_other_tables_take_rows_of_a_csv(form: str) -> None:
    rows = [{"text": text, "label": label, "more": i} for i, (text, label) in enumerate(tickets.texts("en", 60))]
    mine = Path(f"mine.{form}")
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), mine)
    elif form == "jsonl":
        mine.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    elif form == "json":
        mine.write_text(json.dumps(rows, indent=2))
    else:
        table(
            mine.name,
            [("text", "label", "more"), *(tuple(map(str, row.values())) for row in rows)],
            "utf-8",
            "\t",
        )
    entry(mine.name)
    table("march.csv", [("text", "label"), ("the receipt of march", "billing")])
    assert f"mine.{form}: 1 rows are added" in added("march.csv")
    assert "the receipt of march" in splits(mine.name)
    if form == "tsv":
        table("march.csv", [("text", "label"), ("a tab\tinside", "bug")])
        assert "a cell has a tab or a line end, which TSV cannot hold" in added("march.csv", status=1)


@pytest.mark.usefixtures("checkout")
def test_quotes_of_a_tsv_are_characters_as_in_the_corpus() -> None:
    rows = [f"{text}\t{label}" for text, label in tickets.texts("en", 60)]
    Path("mine.tsv").write_text("\n".join(["text\tlabel", '"Great!"\tbug', '"An open quote\tbug', *rows, ""]))
    entry("mine.tsv")
    Path("march.tsv").write_text('text\tlabel\n"Great!"\tbug\n"A sum of 7"\tbilling\n')
    output = added("march.tsv")
    assert "march.tsv: 1 rows repeat a text, and are left out: line 2" in output
    assert Path("mine.tsv").read_text().endswith('\n"A sum of 7"\tbilling\n')


@pytest.mark.usefixtures("checkout")
def test_what_takes_no_rows_says_so() -> None:
    table("mine.csv", [("text", "label"), *tickets.texts("en", 60)])
    Path("march.xlsx").write_bytes(b"PK")
    Path("faq.json").write_text('{"data": []}')
    entry("mine.csv")
    assert "not a readable workbook" in added("march.xlsx", status=1)
    assert "no table; CSV, TSV, JSONL, a JSON list, Parquet or xlsx is expected" in added("faq.json", status=1)
    assert "it is the corpus's own file" in added("mine.csv", status=2)
    assert "missing.csv: no such file" in added("missing.csv", status=1)
    entry("faq.json", "kind: span, format: squad")
    assert "its format is squad; add the new rows to faq.json yourself" in added("mine.csv", status=2)
    Path("params.yaml").write_text("prepare: {mine: {corpus: glue, source: x, task: sst2}}")
    assert "glue is a published corpus; add to one of your own" in added("mine.csv", status=2)


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_private_file_stays_private_and_a_link_a_link(form: str) -> None:
    Path("elsewhere").mkdir()
    corpus, link = Path(f"elsewhere/mine.{form}"), Path(f"mine.{form}")
    rows = tickets.texts("en", 60)
    if form == "csv":
        table(str(corpus), [("text", "label"), *rows])
    else:
        pq.write_table(pa.table({"text": [row[0] for row in rows], "label": [row[1] for row in rows]}), corpus)
    corpus.chmod(0o600)
    link.symlink_to(corpus.resolve())
    entry(str(link))
    table("march.csv", [("text", "label"), ("the receipt of march", "billing")])
    assert "1 rows are added" in added("march.csv")
    assert link.is_symlink()
    assert corpus.stat().st_mode & 0o777 == 0o600
    corpus.chmod(0o444)  # as in DVC's cache, whose files stay as they are
    before = corpus.read_bytes()
    table("march.csv", [("text", "label"), ("the receipt of april", "billing")])
    assert "1 rows are added" in added("march.csv")
    assert (link.is_symlink(), corpus.read_bytes()) == (False, before)
    assert "the receipt of april" in splits(str(link))


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize(
    ("head", "columns", "tail"),
    [
        ("\ntext,label\n", "", "quite new,0\n"),
        ('"text\n(all)",label\n', ', columns: {text: "text\\n(all)"}', "quite new,0\n"),
        ("text,label,,\n", "", "quite new,0,,\n"),
    ],
    ids=["empty line", "line end", "nameless columns"],
)
def test_the_header_may_begin_below_an_empty_line_or_have_a_line_end(head: str, columns: str, tail: str) -> None:
    commas = ",," if head.endswith(",,\n") else ""
    rows = [f"{text},{label}{commas}\n" for text, label in tickets.texts("en", 40)]
    Path("mine.csv").write_text(head + "".join(rows))
    Path("more.csv").write_text(head + tail.replace("0", tickets.texts("en", 1)[0][1]))
    entry("mine.csv", SPLIT + columns)
    before = len(splits("mine.csv"))
    assert "1 rows are added" in added("more.csv")
    assert len(splits("mine.csv")) == before + 1


@pytest.mark.usefixtures("checkout")
def test_rows_that_would_not_be_read_again_are_not_added(monkeypatch: pytest.MonkeyPatch) -> None:
    table("mine.csv", [("text", "label"), *tickets.texts("en", 40)])
    table("more.csv", [("text", "label"), ("quite new", tickets.texts("en", 1)[0][1])])
    entry("mine.csv")
    before = Path("mine.csv").read_bytes()
    monkeypatch.setattr(appending, "_line", lambda *_: "")
    assert "with 1 new rows at its end it would have 0 rows more; nothing is added" in added("more.csv", 1)
    assert Path("mine.csv").read_bytes() == before


@pytest.mark.usefixtures("checkout")
def test_a_number_that_a_parquet_column_cannot_hold_is_told() -> None:
    rows = [{"text": text, "label": label, "n": 1} for text, label in tickets.texts("en", 40)]
    pq.write_table(pa.Table.from_pylist(rows), "mine.parquet")
    Path("more.jsonl").write_text(json.dumps({**rows[0], "text": "quite new", "n": 10**25}) + "\n")
    entry("mine.parquet")
    assert "more.jsonl: line 1: n is 10000000000000000000000000; mine.parquet has int64 there" in added("more.jsonl", 1)


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("form", ["csv", "tsv"])
def test_cells_that_are_no_text_are_written_as_the_corpus_has_them(form: str) -> None:
    delimiter = "\t" if form == "tsv" else ","
    rows = [
        (text, str(i % 2 == 0), f"2026-02-{i % 28 + 1:02} 09:00:00", "1.50")
        for i, (text, _) in enumerate(tickets.texts("en", 40))
    ]
    table(f"mine.{form}", [("text", "label", "day", "price"), *rows], delimiter=delimiter)
    entry(f"mine.{form}", "split: {test: 0.2, by: time day}")
    days = [datetime(2026, 1, 1, 9), datetime(2026, 3, 1, 9)]
    new = {"text": ["quite new", "newer than new"], "label": [True, False], "day": days, "price": [Decimal("2.50")] * 2}
    pq.write_table(pa.table(new), "march.parquet")
    assert "2 rows are added" in added("march.parquet")
    line = delimiter.join(("quite new", "True", "2026-01-01T09:00:00", "2.50"))
    assert Path(f"mine.{form}").read_text().splitlines()[-2] == line
    assert splits(f"mine.{form}")["quite new"] == "train"


@pytest.mark.usefixtures("checkout")
def test_rows_that_where_does_not_select_are_counted() -> None:
    rows = [(*row, "TRAIN" if i % 4 else "TEST") for i, row in enumerate(tickets.texts("en", 60))]
    table("mine.csv", [("text", "label", "part"), *rows])
    entry("mine.csv", "files: {train: '', test: ''}, where: {train: {part: TRAIN}, test: {part: TEST}}")
    fresh = [("quite new", "bug", "TRAIN"), ("very new", "bug", "TEST"), ("most new", "bug", "TEST")]
    table("march.csv", [("text", "label", "part"), *fresh])
    output = added("march.csv")
    assert "march.csv: 2 rows are not of train (`where`), and are left out: line 3, line 4\n" in output
    assert "mine.csv: 1 rows are added; train 45 -> 46, test 15 -> 15\n" in output


@pytest.mark.usefixtures("checkout")
def test_an_addition_of_nothing_leaves_the_counts_as_they_are() -> None:
    rows = tickets.texts("en", 60)
    table("mine.csv", [("text", "label"), *rows])
    entry("mine.csv")
    table("march.csv", [("text", "label"), *rows[:3]])
    output = added("march.csv")
    assert output.endswith("mine.csv: 0 rows are added\n")
    answer = json.loads(commands.bertline("add", "march.csv", "--to", "mine", "--json").require(0).out)
    assert answer["after"] == answer["before"] != {}


@pytest.mark.usefixtures("checkout")
def test_an_error_after_appending_names_no_file_that_is_gone() -> None:
    rows = [(*row, f"2026-02-{i % 28 + 1:02}") for i, row in enumerate(tickets.texts("en", 60))]
    table("mine.csv", [("text", "label", "day"), *rows])
    entry("mine.csv", "split: {test: 0.2, by: time day}")
    table("march.csv", [("text", "label", "day"), ("quite new", "bug", "20260301")])
    error = added("march.csv", 1)
    assert "mine.csv with the new rows: split: the time is a date at line 2, and a number at line 62" in error
    assert ".partial" not in error


@pytest.mark.usefixtures("checkout")
def test_a_parquet_column_takes_the_text_of_its_values_alone() -> None:
    rows = [{"text": text, "label": label, "n": 1, "price": 1.5, "day": datetime(2026, 2, 1), "of": ["a"]}
            for text, label in tickets.texts("en", 40)]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), "mine.parquet")
    entry("mine.parquet")
    names = ("text", "label", "n", "price", "day")
    table("march.csv", [names, ("quite new", "bug", "600", "2.50", "2026-03-01 09:00:00"), ("new", "bug", "", "", "")])
    assert "2 rows are added" in added("march.csv")
    last = pq.read_table("mine.parquet").to_pylist()[-2:]
    assert [*last[0].values()] == ["quite new", "bug", 600, 2.5, datetime(2026, 3, 1, 9), None]
    assert [*last[1].values()] == ["new", "bug", None, None, None, None]
    for name, cell, form in (("n", "007", "int64"), ("price", "2,50", "double"), ("day", "soon", "timestamp")):
        table("april.csv", [("text", "label", name), ("newer", "bug", ""), ("newest", "bug", cell)])
        assert f"april.csv: line 3: {name} is '{cell}'; mine.parquet has {form}" in added("april.csv", 1)
    table("april.csv", [("text", "label", "of"), ("newer", "bug", "ab")])
    assert "april.csv: line 2: of is 'ab'; mine.parquet has list" in added("april.csv", 1)
    Path("april.jsonl").write_text(json.dumps({"text": "newer", "label": "bug", "n": 1.5}))
    assert "april.jsonl: line 1: n is 1.5; mine.parquet has int64 there" in added("april.jsonl", 1)


@pytest.mark.usefixtures("checkout")
def test_of_two_additions_at_once_the_later_is_told_to_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one ends between the reading of the corpus and the lock on its file."""
    entry("mine.csv")
    rows = tickets.texts("en", 60)
    table("mine.csv", [("text", "label"), *rows[:40]])
    table("first.csv", [("text", "label"), *rows[40:50]])
    table("second.csv", [("text", "label"), *rows[50:]])
    choose = additions._choose

    def late(*arguments: Any) -> None:
        monkeypatch.setattr(additions, "_choose", choose)
        added("first.csv")
        choose(*arguments)

    monkeypatch.setattr(additions, "_choose", late)
    assert "mine.csv: it has changed meanwhile; nothing is added; run the command again" in added("second.csv", 1)
    assert "10 rows are added" in added("second.csv")
    assert len(Path("mine.csv").read_text().splitlines()) == 61
