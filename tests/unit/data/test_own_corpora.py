"""Corpora of one's own in any encoding, with any delimiter, in one file; all findings at once."""

import json
import random
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from pipelines.core import paths, tables
from pipelines.core.errors import FindingsError, InputError, UsageError
from pipelines.data import duplicates, references
from pipelines.data.corpora import custom
from pipelines.data.formats import delimiters, encodings
from pipelines.graph import checking
from pipelines.stages import prepare

TEXTS = ["請求書の金額が違います。", "アプリが起動しません。", "解約の方法を教えてください。"]
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp932", "euc-jp", "iso2022_jp"]


def rows_of(path: Path, side: str = "train", /, **options: object) -> list[dict]:
    params = custom.Params(**options)  # type: ignore[arg-type]
    return list(custom.parse(path, custom.task(path, "", params), side, params))


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "json"])
def test_rows_are_the_same_in_every_encoding(encoding: str, form: str, tmp_path: Path) -> None:
    content = {
        "csv": "text,label\r\n" + "".join(f'"{text}\n二行目",x{i % 2}\r\n' for i, text in enumerate(TEXTS)),
        "tsv": "text\tlabel\n" + "".join(f"{text}\tx{i % 2}\n" for i, text in enumerate(TEXTS)),
        "jsonl": "".join(f'{{"text": "{text}", "label": "x{i % 2}"}}\n' for i, text in enumerate(TEXTS)),
        "json": json.dumps([{"text": text, "label": f"x{i % 2}"} for i, text in enumerate(TEXTS)], ensure_ascii=False),
    }[form]
    path = tmp_path / f"rows.{form}"
    path.write_bytes(content.encode(encoding))
    name = encodings.reads_as(path)
    assert name == encoding.removesuffix("-sig")
    rows = rows_of(path, encoding=name)
    assert [row["text"] for row in rows] == [f"{text}\n二行目" if form == "csv" else text for text in TEXTS]


def test_an_encoding_is_told_by_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for content, name in [
        ("résumé, naïve".encode("cp1252"), "cp1252"),
        (b"plain", "utf-8"),
        (bytes(range(256)), ""),
        (("番号,text\n" + "1,plain words in English\n" * 20).encode("cp932"), "cp932"),
        ("件名,分類\n".encode("cp932"), "cp932"),
        (("あ" * 700_000).encode(), "utf-8"),  # the sample ends within a character
    ]:
        path.write_bytes(content)
        assert encodings.reads_as(path) == name, content[:20]


@pytest.mark.parametrize(("written", "read"), [("cp932", "utf-8"), ("euc-jp", "utf-8"), ("utf-8", "utf-16")])
def test_another_encoding_is_named(written: str, read: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(("text,label\n" + "".join(f"{text},{i}\n" for i, text in enumerate(TEXTS))).encode(written))
    with pytest.raises(InputError, match=rf"this reads as {written}; write `encoding: {written}`"):
        rows_of(path, encoding=read)
    with pytest.raises(InputError, match=r"label|rows|CSV"):  # with it, the file is read: no other complaint of bytes
        rows_of(path, encoding=written, labels=["2"])


def test_documents_and_questions_have_encodings_too(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for label in "ab":
        (tmp_path / label / "1.txt").write_bytes(TEXTS[0].encode("cp932"))
    with pytest.raises(InputError, match="this reads as cp932"):
        rows_of(tmp_path, format="folder")
    assert [row["text"] for row in rows_of(tmp_path, format="folder", encoding="cp932")] == TEXTS[:1] * 2


def test_an_unknown_encoding_and_useless_options_are_refused() -> None:
    for options, message in [
        ({"encoding": "shift-jiss"}, "no encoding 'shift-jiss'"),
        ({"format": "tsv", "delimiter": ";"}, "delimiter: has no effect"),
        ({"split": {"test": 0.6, "dev": 0.5}}, "test and dev are 1.1"),
        ({"split": {"by": "group"}}, "write share, group COLUMN or time COLUMN"),
        ({"split": {}, "files": {"train": "a", "test": "b"}}, "test has a file already"),
        ({"split": {}, "files": {"dev": "a"}}, "divides the rows of train"),
        ({"format": "conll", "kind": "tagging", "split": {"by": "time day"}}, "has no columns"),
        ({"labels": {"rename": {"a": "b"}}, "label_names": {"a": "c"}}, "leave one of them out"),
    ]:
        with pytest.raises(ValueError, match=message):
            print(options, custom.Params(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize(("delimiter", "name"), [(";", '";"'), ("|", r'"\|"'), ("\t", r'"\\t"')])
def test_another_delimiter_is_named(delimiter: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    lines = [["body", "kind"], ["a, b, and c", "x"], ["d", "y"]]
    path.write_text("".join(delimiter.join(line) + "\n" for line in lines))
    with pytest.raises(InputError, match=f"columns are separated by .*; write `delimiter: {name}`"):
        rows_of(path, columns={"text": "body", "label": "kind"})
    assert delimiters.likeliest(path) == delimiter
    rows = rows_of(path, columns={"text": "body", "label": "kind"}, delimiter=delimiter)
    assert [row["text"] for row in rows] == ["a, b, and c", "d"]


def test_labels_are_renamed_and_lose_outer_spaces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET")
    path = tmp_path / "a.csv"
    path.write_text("text,label\na,bug\nb, bug \nc,Billing \nd,billing\n")
    rows = rows_of(path, labels={"rename": {"Billing ": "billing"}})
    assert [row["label"] for row in rows] == ["bug", "bug", "billing", "billing"]
    assert "spaces around the label are taken away in 1 rows, such as ' bug '" in capsys.readouterr().err
    assert [row["label"] for row in rows_of(path)][1] == " bug "  # as before, unless `labels` is a mapping


def test_all_findings_come_at_once(checkout: Path) -> None:
    lines = ["text,label", *(f"text number {i},{'ab'[i % 2]}" for i in range(40)), "only one", "x,aa", "y,bb", ",a"]
    Path("a.csv").write_text("\n".join(lines) + "\n")
    entry = {"corpus": "custom", "source": "a.csv", "labels": ["a", "b"], "expect": {"max_empty": 0}}
    Path("params.yaml").write_text(yaml.safe_dump({"prepare": {"it": entry}}))
    with pytest.raises(FindingsError) as caught:
        prepare.main("it")
    assert caught.value.lines() == [
        "a.csv: line 42: 1 fields, the header has 2",
        "a.csv: line 43: no label 'aa' (did you mean 'a'?); there are: a, b; `labels` in params.yaml lists them",
        "a.csv: line 44: no label 'bb' (did you mean 'b'?); there are: a, b; `labels` in params.yaml lists them",
        "train has 1 empty texts, such as ['train-42']",
        "4 findings in all",
    ]
    assert not paths.rows("it").exists()
    Path("a.csv").write_text("text,label\n" + "x,c\n" * 50 + "y,a\n")
    with pytest.raises(FindingsError) as caught:
        prepare.main("it")
    assert len(caught.value.findings) == 50
    assert caught.value.lines()[20:] == ["50 findings; the first 20 are above"]


def test_one_text_under_two_labels_is_named(checkout: Path) -> None:
    Path("a.csv").write_text("text,label\nit broke,bug\nit broke,billing\n")
    entry = {"corpus": "custom", "source": "a.csv", "expect": {"max_conflicts": 0}}
    Path("params.yaml").write_text(yaml.safe_dump({"prepare": {"it": entry}}))
    with pytest.raises(InputError, match=r"such as 'it broke' \(train-0: bug; train-1: billing\)"):
        prepare.main("it")


def made(folder: Path, lines: list[str], **options: object) -> dict[str, list[dict]]:
    path = folder / "all.csv"
    path.write_text("text,label,who,day\n" + "\n".join(lines) + "\n")
    params = custom.Params(**options)  # type: ignore[arg-type]
    return {split: rows_of(path, split, **options) for split in params.splits}


def tickets(count: int = 200) -> list[str]:
    """Different sentences, and near and exact duplicates of every tenth."""
    drawn = random.Random(3)
    words = "invoice printer login screen refund delivery password account network cable order"
    lines = []
    for i in range(count):
        text = " ".join(drawn.choices(words.split(), k=9))
        copies = [text, text.upper(), f"{text} please", text][: 4 if i % 10 == 0 else 1]
        lines += [f"{copy},{'abc'[i % 3]},c{i % 17},2026-{1 + i % 12}-{1 + i % 28}" for copy in copies]
    return lines


def test_a_split_is_the_same_whatever_the_order_of_the_rows(tmp_path: Path) -> None:
    lines = tickets()
    splits = made(tmp_path, lines, split={"test": 0.2, "dev": 0.1})
    assert {*splits} == {"train", "dev", "test"}
    random.Random(1).shuffle(lines)
    again = made(tmp_path, lines, split={"test": 0.2, "dev": 0.1})
    for name, rows in splits.items():
        assert sorted(row["text"] for row in rows) == sorted(row["text"] for row in again[name])
    other = made(tmp_path, lines, split={"test": 0.2, "dev": 0.1, "seed": 2})
    assert sorted(row["text"] for row in other["test"]) != sorted(row["text"] for row in again["test"])
    assert sum(map(len, splits.values())) == len(lines)


def test_a_split_is_stratified_and_shares_no_similar_text(tmp_path: Path) -> None:
    splits = made(tmp_path, tickets(), split={"test": 0.2, "dev": 0.1})
    count = sum(map(len, splits.values()))
    for name, share in (("test", 0.2), ("dev", 0.1)):
        for label in "abc":
            rows = [row for row in splits[name] if row["label"] == label]
            assert abs(len(rows) / count * 3 - share) < 0.06, (name, label)
    texts = [duplicates.plain(row["text"]) for rows in splits.values() for row in rows]
    sides = [name for name, rows in splits.items() for _ in rows]
    sizes, of = {}, duplicates.together(texts)
    for number, side in zip(of, sides, strict=True):
        assert sizes.setdefault(number, side) == side
    assert len(sizes) < 210  # of 260 rows; a sketch may miss a few that are nearly as different as the limit


def test_rows_added_later_leave_most_rows_where_they_were(tmp_path: Path) -> None:
    lines = tickets()
    before = {row["text"] for row in made(tmp_path, lines[:200], split={})["test"]}
    after = {row["text"] for row in made(tmp_path, lines, split={})["test"]}
    assert len(before & after) > 0.7 * len(before)


def test_a_split_by_group_and_by_time(tmp_path: Path) -> None:
    lines = [
        f"text {i} {'xyzw' * (i % 7)} {i * i},{'ab'[i % 2]},c{i % 9},2026/{1 + i // 20}/{1 + i % 20}"
        for i in range(180)
    ]
    who = {line.split(",")[0]: line.split(",")[2] for line in lines}
    day = {line.split(",")[0]: tuple(map(int, line.split(",")[3].split("/"))) for line in lines}
    splits = made(tmp_path, lines, split={"test": 0.3, "by": "group who"})
    sides = [{who[row["text"]] for row in rows} for rows in splits.values()]
    assert all(sides)
    assert not sides[0] & sides[1]
    splits = made(tmp_path, lines, split={"test": 0.2, "dev": 0.2, "by": "time day"})
    times = {name: [day[row["text"]] for row in rows] for name, rows in splits.items()}
    assert max(times["train"]) <= min(times["dev"])
    assert max(times["dev"]) <= min(times["test"])
    lines[3] = lines[3].rpartition(",")[0] + ",yesterday"
    lines[9] = lines[9].rpartition(",")[0] + ","
    with pytest.raises(FindingsError) as refused:
        made(tmp_path, lines, split={"by": "time day"})
    assert [finding.partition("split: ")[2][:16] for finding in refused.value.findings] == [
        "line 5: the time",
        "line 11: the tim",
    ]
    splits = made(tmp_path, lines, split={"by": "time day"}, leave_out=["broken"])
    assert sum(map(len, splits.values())) == 178
    lines = [line.rpartition(",")[0] + ",2026/1/1" for line in lines]
    with pytest.raises(InputError, match="gets none of 180 rows; rows of one time, or with similar texts, stay"):
        made(tmp_path, lines, split={"by": "time day"})


def test_times_are_compared_as_instants_and_not_as_texts(tmp_path: Path) -> None:
    texts = [f"text {i} {'xyzw' * (i % 7)} {i * i}" for i in range(60)]
    stamps = [str(1712120512300 + 20 * i) for i in range(60)]  # milliseconds, of which 1712120512345 would be a date
    zones = [f"2026-01-30T{16 + i % 4}:{i:02}+0{i % 2}:00" for i in range(60)]
    excel = [f"2026/1/30 {8 + i // 20}:{i:02}" for i in range(60)]
    offices = [f"2026年1月30日{'' if i % 2 else '　'}{8 + i // 20}:{i:02}" for i in range(60)]
    for times, order in (
        (excel, [*range(60)]),
        (offices, [*range(60)]),
        (stamps, [*range(60)]),
        (zones, sorted(range(60), key=lambda i: ((16 + i % 4) * 60 + i - 60 * (i % 2), i))),
    ):
        lines = [f"{text},{'ab'[i % 2]},c,{time}" for i, (text, time) in enumerate(zip(texts, times, strict=True))]
        rows = made(tmp_path, lines, split={"test": 0.2, "by": "time day"})["test"]
        assert {row["text"] for row in rows} == {texts[i] for i in order[-12:]}
    lines[7] = lines[7].rpartition(",")[0] + ",1712120512345"
    with pytest.raises(InputError, match="the time is a date at line 2, and a number at line 9; write all alike"):
        made(tmp_path, lines, split={"by": "time day"})


def test_times_of_parquet(tmp_path: Path) -> None:
    days = [date(2026, 1 + i % 12, 1 + i % 28) for i in range(60)]
    texts = [f"text {i} {'xyzw' * (i % 7)} {i * i}" for i in range(60)]
    columns = {"text": texts, "label": ["a", "b"] * 30, "day": days}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    later = rows_of(tmp_path / "rows.parquet", "test", split={"test": 0.2, "by": "time day"})
    assert {row["text"] for row in later} == {text for _, text in sorted(zip(days, texts, strict=True))[-12:]}
    columns["day"] = [float(i) for i in range(59)] + [float("nan")]
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    with pytest.raises(InputError, match="the time is nan; a date such as 2026-01-31 or a number"):
        rows_of(tmp_path / "rows.parquet", "test", split={"test": 0.2, "by": "time day"})


def test_rows_without_a_group_are_no_group(tmp_path: Path) -> None:
    lines = [f"text {i} {'xyzw' * (i % 7)} {i * i},a,,2026-1-1" for i in range(50)]
    assert len(made(tmp_path, lines, kind="text", split={"by": "group who"})["test"]) == 10


def test_a_split_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="test gets none of 4 rows"):
        made(tmp_path, ["same text,a,c,1", "same text,a,c,2", "other one,b,c,3", "other one,b,c,4"], split={})


def test_check_finds_a_missing_split_before_a_training(checkout: Path) -> None:
    Path("a.csv").write_text("text,label\n" + "x,a\ny,b\n" * 5)
    entry = {"corpus": "custom", "source": "a.csv"}
    values = {"prepare": {"it": entry}, "baseline": {"svm": {"task": "it"}}}
    Path("params.yaml").write_text(yaml.safe_dump(values))
    assert [*references.complaints(checking.check())] == [
        "baseline.svm.split: prepare.it makes no split 'test'; it makes train; "
        "`split: {test: 0.2}` under prepare.it makes it of train"
    ]
    values["prepare"]["it"] = entry | {"split": {"test": 0.2}}
    Path("params.yaml").write_text(yaml.safe_dump(values))
    assert [*references.complaints(checking.check())] == []
    Path("a.csv").write_text(
        "text,label\n" + "".join(f"{'abcdefghij'[i]} text {i}{i}{i},{'ab'[i % 2]}\n" for i in range(10))
    )
    prepare.main("it")
    assert tables.read(paths.rows("it") / "test.parquet").num_rows == 2
    values["prepare"]["it"] = entry | {"expct": {}}
    Path("params.yaml").write_text(yaml.safe_dump(values))
    with pytest.raises(UsageError, match=r"no key 'expct' \(did you mean 'expect'\?\)"):
        checking.check_options(checking.check())


def test_a_column_that_no_json_record_has_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n{"text": "b"}\n')
    with pytest.raises(InputError, match=r"a\.jsonl: no column 'label'; there are: text"):
        rows_of(path, labels=["x", "y"], leave_out=["broken"])
    path.write_text('{"label": "x"}\n{"label": "y"}\n')
    with pytest.raises(InputError, match=r"a\.jsonl: line 1: no column 'text'; there are: label"):
        rows_of(path, labels=["x", "y"], leave_out=["broken"])
    path.write_text('{"label": "x"}\n{"text": "a", "label": "y"}\n')
    assert [row["text"] for row in rows_of(path, labels=["x", "y"], leave_out=["broken"])] == ["a"]
    with pytest.raises(FindingsError, match=r"^[^;]*line 1: no column 'text'; there are: label$"):
        rows_of(path, labels=["x", "y"])
