"""`bertline new`: from a file of one's own, as dirty as offices have them, to entries that check and train."""

import io
import json
import re
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from pipelines.core import paths, tables
from pipelines.core.errors import UsageError
from pipelines.core.task import Task
from pipelines.data import inspection
from pipelines.graph import new_entries
from pipelines.stages import baseline, encode, evaluate, finetune, prepare
from tests.conftest import ROOT
from tests.support import commands, tickets, tiny, workbook_files

OURS = """# my params; this comment stays
resources: {threads: 1}

prepare:  # corpora
    # indented by four
    old:
        corpus: custom
        source: old.csv

encode: {}
finetune:
evaluate: {}
"""


@pytest.fixture
def place(checkout: Path) -> Path:
    """A checkout with a graph and encoders, and no entries."""
    (checkout / "dvc.yaml").symlink_to(ROOT / "dvc.yaml")
    (checkout / "encoders").symlink_to(ROOT / "encoders")
    return checkout


def new(*words: str) -> str:
    return commands.bertline("new", *words, "--yes").require(0).out


@pytest.mark.slow
@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("language", "encoding", "delimiter"), [("ja", "cp932", ";"), ("en", "utf-16", "\t"), ("ja", "utf-8-sig", ",")]
)
def test_a_dirty_file_is_told_and_written(language: str, encoding: str, delimiter: str) -> None:
    dirt = tickets.DIRT
    tickets.write(Path("tickets.csv"), language, encoding, delimiter)
    output = new("tickets.csv", "--into", "mine.yaml")
    for sentence in [
        f"language {language}",
        "id is '番号', text is 'body', label is 'category'",
        f"{dirt.empty} rows without a text are left out",
        f"{dirt.broken} broken rows are left out: tickets.csv: line 51: 5 fields, the header has 3",
        f"{dirt.again + dirt.contradictions} rows repeat a text",
        f"{dirt.contradictions} texts have two labels",
        "the labels 'BUG' and 'bug' become one",
        "the label 'bugg' has one row, which no test can hold; if it is 'bug', write it under labels.rename",
        "bertline use mine.yaml",
    ]:
        assert sentence in output
    entries = yaml.safe_load(Path("mine.yaml").read_text())
    keys = entries["prepare"]["tickets"]
    assert keys.get("encoding", "utf-8") == encoding.removesuffix("-sig")
    assert keys.get("delimiter", ",") == delimiter
    assert keys["split"] == {"test": 0.2, "dev": 0.1, "seed": 1}
    assert entries["finetune"]["tickets"]["encoder"] == f"encoders/mini-{language}"
    commands.bertline("use", "mine.yaml").require(0)
    assert "7 entries, all well-formed" in commands.bertline("check").require(0).out


@pytest.mark.slow
def test_a_dirty_file_becomes_a_model_with_a_score(place: Path) -> None:
    tickets.write(Path("tickets.csv"), "ja", "cp932", ";")
    new("tickets.csv", "--into", "params.yaml")
    tiny.of_family("modernbert", Path("tiny"))
    text = Path("params.yaml").read_text().replace("encoders/mini-ja", "tiny").replace("epochs: 8", "epochs: 1")
    Path("params.yaml").write_text(text + "resources: {workers: 0, threads: 1}\n")
    prepare.main("tickets")
    rows = {split: tables.read(paths.rows("tickets") / f"{split}.parquet") for split in ("train", "dev", "test")}
    assert Task.load(paths.rows("tickets")).labels == ("billing", "bug", "bugg", "how-to")
    left = 600 - tickets.DIRT.empty - tickets.DIRT.broken
    assert sum(table.num_rows for table in rows.values()) == left
    assert 0.15 * left < rows["test"].num_rows < 0.25 * left
    texts = [{*table.column("text").to_pylist()} for table in rows.values()]
    assert not texts[0] & texts[1] | texts[0] & texts[2] | texts[1] & texts[2]
    encode.main("tickets")
    baseline.main("tickets-baseline")
    finetune.main("tickets")
    evaluate.main("tickets")
    scores = {run: json.loads(paths.scores(run).read_text())["accuracy"] for run in ("tickets", "tickets-baseline")}
    assert scores["tickets-baseline"] > 0.9  # the labels are in the words
    assert scores["tickets"] > 0.2


def test_the_examples_of_the_page_are_prepared(place: Path) -> None:
    page = (ROOT / "docs/using.md").read_text(encoding="utf-8")
    first, others = re.findall(r"^```yaml\n(prepare:.*?)^```$", page, re.MULTILINE | re.DOTALL)[:2]
    Path("my").mkdir()
    lines = [f"film {i * i} {word};{label}" for i in range(20) for word, label in (("良い", " good"), ("退屈", "bad"))]
    text = "\r\n".join(["review;stars", *lines, "最高;Good!", ";", "a;b;c"]) + "\r\n"
    Path("my/reviews.csv").write_bytes(text.encode("cp932"))
    squad(Path("my/faq.json"))
    conll(Path("my/names.conll"))
    for block, names in ((first, ["reviews"]), (others, ["faq", "names"])):
        named = yaml.safe_load(block)
        others_empty = "".join(f"{section}: {{}}\n" for section in new_entries.SECTIONS if section not in named)
        Path("params.yaml").write_text(block.replace("min_rows: 20", "min_rows: 4") + others_empty)
        assert "all well-formed" in commands.bertline("check").require(0).out
        for name in names:
            prepare.main(name)
    rows = [tables.read(paths.rows("reviews") / f"{split}.parquet") for split in ("train", "dev", "test")]
    assert [table.num_rows for table in rows] == [29, 4, 8]
    assert {label for table in rows for label in table.column("label").to_pylist()} == {"good", "bad"}


def test_a_folder_below_the_root_gets_no_params(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("params.yaml").write_text("prepare: {}\n")
    Path("my").mkdir()
    tickets.write(Path("my/tickets.csv"), "en", "utf-8", ",")
    monkeypatch.chdir("my")
    for words in (["new", "tickets.csv", "--yes"], ["use", "../params.yaml"]):
        refused = commands.bertline(*words).require(2)
        assert f"{place / 'my'}: a folder of the project {place}; run the command there" in refused.err
    assert [file.name for file in Path().iterdir()] == ["tickets.csv"]
    monkeypatch.chdir("..")
    Path("dvc.yaml").unlink()
    assert "dvc.yaml: no such file; stages run at the root of a checkout" in commands.bertline("run").require(2).err


def test_other_lines_stay_and_a_taken_name_is_refused(place: Path) -> None:
    Path("old.csv").write_text("text,label\n" + "".join(f"good film {i * i},{'ab'[i % 2]}\n" for i in range(40)))
    Path("params.yaml").write_text(OURS)
    new("old.csv", "films")
    text = Path("params.yaml").read_text()
    entries = yaml.safe_load(text)
    assert [*entries["prepare"]] == ["films", "old"]
    assert "# my params; this comment stays" in text
    assert "prepare:  # corpora\n" in text
    assert [line for line in OURS.splitlines() if line not in text] == ["encode: {}", "evaluate: {}"]
    for name in ("films", "old"):
        ended = commands.bertline("new", "old.csv", name).require(2)
        assert f"prepare.{name} is there already; give another name, or remove it" in ended.err
    assert Path("params.yaml").read_text() == text


@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_line_ends_stay(end: str, checkout: Path) -> None:
    Path("old.csv").write_text("text,label\n" + "".join(f"good film {i * i},{'ab'[i % 2]}\n" for i in range(40)))
    Path("params.yaml").write_text(OURS, newline=end)
    new_entries.write(Path("params.yaml"), new_entries.entries("films", inspection.inspect([Path("old.csv")])))
    lines = Path("params.yaml").read_bytes().decode().split("\n")
    assert len(lines) > 20
    assert {line.endswith("\r") for line in lines[:-1]} == {end == "\r\n"}


def test_sections_in_braces_are_left_alone(place: Path) -> None:
    Path("old.csv").write_text("text,label\n" + "".join(f"good film {i * i},{'ab'[i % 2]}\n" for i in range(40)))
    Path("params.yaml").write_text("prepare: {old: {corpus: custom, source: old.csv}}\n")
    ended = commands.bertline("new", "old.csv", "films").require(2)
    assert "--into" in ended.err
    assert Path("params.yaml").read_text().count("\n") == 1


def squad(path: Path) -> None:
    contexts = [f"{name} was born in {place} in {1800 + i}." for i, (name, place) in enumerate(NAMES)]
    paragraphs = [
        {
            "context": context,
            "qas": [{"id": str(i), "question": "Where was it?", "answers": [answer(context, NAMES[i][1])]}],
        }
        for i, context in enumerate(contexts)
    ]
    path.write_text(json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}))


NAMES = [(f"{first} {last}", f"{last}burg") for first in ("Ada", "Bo", "Cy", "Di") for last in ("Hill", "Moor", "Lake")]


def answer(context: str, text: str) -> dict[str, object]:
    return {"text": text, "answer_start": context.index(text)}


def conll(path: Path) -> None:
    sentences = [f"{first} B-PER\n{last} I-PER\nlives O\nthere{i} O\n" for i, (first, last) in enumerate(FOLK)]
    path.write_text("\n".join(sentences))


WORDS = ("alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliett")
FOLK = [(first, last) for first in ("Ada", "Bo", "Cy", "Di", "Ed") for last in ("Hill", "Moor", "Lake")]


@pytest.mark.parametrize(("file", "kind"), [("faq.json", "span"), ("names.conll", "tagging"), ("mails", "single")])
def test_questions_tags_and_folders_come_as_far_as_rows(file: str, kind: str, place: Path) -> None:
    if kind == "span":
        squad(Path(file))
    elif kind == "tagging":
        conll(Path(file))
    else:
        for i, (first, last) in enumerate(FOLK):
            Path(file, "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
            Path(file, "ab"[i % 2], f"{i}.txt").write_text(f"{first} of {last} wrote letter {i * i}")
    assert f"of kind {kind}, language en" in new(file)
    assert "all well-formed" in commands.bertline("check").require(0).out
    name = Path(file).stem
    prepare.main(name)
    encode.main(name)
    rows = [tables.read(paths.rows(name) / f"{split}.parquet").num_rows for split in ("train", "test")]
    assert all(rows)
    assert sum(rows) == (12 if kind == "span" else 15)


def test_files_that_say_their_splits_are_taken_together(place: Path) -> None:
    Path("my").mkdir()
    for split, count in (("train", 30), ("test", 10)):
        lines = [{"sentence1": f"a {i}{split}", "sentence2": f"b {i}", "label": i % 2} for i in range(count)]
        Path("my", f"pairs_{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    output = new("my/pairs_train.jsonl", "my/pairs_test.jsonl", "pairs")
    assert "40 rows of kind pair" in output
    keys = yaml.safe_load(Path("params.yaml").read_text())["prepare"]["pairs"]
    assert keys["files"] == {"train": "pairs_train.jsonl", "test": "pairs_test.jsonl"}
    assert "split" not in keys
    prepare.main("pairs")
    assert tables.read(paths.rows("pairs") / "test.parquet").num_rows == 10


@pytest.mark.parametrize(
    ("names", "source", "files"),
    [
        (["part-0", "part-1", "part-2"], "notes.csv", None),
        (["train", "validation", "test"], "my/notes", {"train": "train", "dev": "validation", "test": "test"}),
        (["train-0", "train-1", "test"], "notes", {"train": "train", "test": "test"}),
        (["part-0"], "my/notes/part-0.csv", None),
    ],
)
def test_a_folder_of_tables_is_one_corpus(
    names: list[str], source: str, files: dict[str, str] | None, place: Path
) -> None:
    Path("my/notes").mkdir(parents=True)
    for name in names:
        lines = (f"{word} {i * i} of {name},{word}" for i in range(10) for word in ("good", "bad"))
        Path("my/notes", f"{name}.csv").write_text("\n".join(["text,label", *lines, ""]))
    Path("my/notes/_SUCCESS").touch()
    new("my/notes")
    keys = yaml.safe_load(Path("params.yaml").read_text())["prepare"]["notes"]
    assert keys["source"] == source
    assert keys.get("files") == (files and {split: f"{name}.csv" for split, name in files.items()})
    assert sorted(file.stem for file in Path("my/notes").glob("*.csv")) == sorted(names), "parts stay"
    prepare.main("notes")
    rows = [tables.read(file).num_rows for file in paths.rows("notes").glob("*.parquet")]
    assert sum(rows) == 20 * len(names)


@pytest.mark.parametrize(("name", "delimiter"), [("test.tsv", "\t"), ("test.txt", ",")])
def test_a_format_that_one_of_the_suffixes_does_not_tell_is_written(name: str, delimiter: str, place: Path) -> None:
    Path("my").mkdir()
    for file, count in (("train.csv", 40), (name, 10)):
        lines = (f'"so ""{word}"" {i}"{delimiter}{word}' for i in range(count // 2) for word in ("good", "bad"))
        Path("my", file).write_text("\n".join([f"text{delimiter}label", *lines, ""]))
    new("my/train.csv", f"my/{name}", "notes")
    assert yaml.safe_load(Path("params.yaml").read_text())["prepare"]["notes"]["format"] == "csv"
    prepare.main("notes")
    assert tables.read(paths.rows("notes") / "test.parquet")["text"].to_pylist()[:2] == ['so "good" 0', 'so "bad" 0']


def test_a_dev_file_without_a_test_is_the_test(place: Path) -> None:
    for split, count in (("train", 40), ("dev", 10)):
        lines = (f"{word} {i}{split},{word}" for i in range(count // 2) for word in ("good", "bad"))
        Path(f"{split}.csv").write_text("\n".join(["text,label", *lines, ""]))
    refused = commands.bertline("new", "train.csv", "dev.csv", "notes").require(2).err
    assert ".: this folder holds the project too, and stages write into it; give the corpus one of its own: " in refused
    steps = "mkdir notes && mv train.csv dev.csv notes, then: bertline new notes/train.csv notes/dev.csv"
    assert refused.endswith(f"{steps}\n")
    Path("notes").mkdir()
    for split in ("train", "dev"):
        Path(f"{split}.csv").rename(f"notes/{split}.csv")
    new("notes/train.csv", "notes/dev.csv")
    params = yaml.safe_load(Path("params.yaml").read_text())
    assert params["prepare"]["notes"]["files"] == {"train": "train.csv", "test": "dev.csv"}
    assert (params["evaluate"]["notes"], "dev" in params["finetune"]["notes"]) == ({"task": "notes"}, False)
    commands.bertline("check").require(0)
    Path("notes/test.csv").write_bytes(Path("notes/dev.csv").read_bytes())
    refused = commands.bertline("new", "notes/dev.csv", "notes/test.csv", "others").require(1).err
    assert refused == "bertline: error: notes: no file to train on; its name says train\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"sep=;\ntext;label\nx;y\n", "its first line, 'sep=;', is read by Excel alone; remove this line"),
        ("a.xlsx", b"PK", "not a readable workbook"),
        ("a.ods", b"PK", "a workbook of another form than xlsx; save it as xlsx"),
        ("a.pdf", b"%PDF text", "not CSV, TSV, JSONL, JSON, Parquet, xlsx"),
        ("a.csv", b"text\nx\ny\n", "no column holds labels"),
        ("a.csv", b"a,b\n", "no rows in it"),
        ("a.csv", bytes(range(256)), "no text in a known encoding"),
    ],
)
def test_a_file_of_no_use_is_refused_in_a_sentence(name: str, content: bytes, message: str, place: Path) -> None:
    Path(name).write_bytes(content)
    ended = commands.bertline("new", name)
    assert ended.status in (1, 2)
    assert message in ended.err
    assert ended.err.count("\n") == 1
    assert not Path("params.yaml").exists()


def test_a_workbook_is_read_by_its_first_sheet_with_rows(place: Path) -> None:
    header = ["received", "text", "label"]
    rows = [[date(2026, 11, 1 + i % 28), f"word {i * i}", i % 2] for i in range(30)] + [[None, None, 1], []]
    old = [["text", "label"], ["old", 1]]
    workbook_files.write(Path("tickets.xlsx"), {"Cover": [["Tickets"]], "Open": [header, *rows], "Closed": old})
    output = new("tickets.xlsx")
    assert "tickets.xlsx: xlsx, sheet 'Open'; 31 rows of kind single" in output
    assert "sheets that are not read: 'Closed'; `sheet` names another" in output
    assert "1 rows without a text are left out: row 32" in output
    keys = yaml.safe_load(Path("params.yaml").read_text())["prepare"]["tickets"]
    assert (keys["sheet"], keys["labels"]["names"], "encoding" in keys) == ("Open", ["0", "1"], False)
    assert "all well-formed" in commands.bertline("check").require(0).out
    prepare.main("tickets")
    rows_of = [tables.read(paths.rows("tickets") / f"{split}.parquet") for split in ("train", "test")]
    assert sum(table.num_rows for table in rows_of) == 30
    workbook_files.write(Path("more.xlsx"), {"More": [["text", "label"], ["something new", 1]]})
    ended = commands.bertline("add more.xlsx --to tickets").require(2)
    assert "tickets.xlsx: a workbook; add the rows in the program that wrote it" in ended.err


def test_rows_of_a_workbook_join_a_csv(place: Path) -> None:
    Path("a.csv").write_text("text,label\n" + "".join(f"word {i * i},{i % 2}\n" for i in range(30)))
    new("a.csv")
    workbook_files.write(Path("more.xlsx"), {"Cover": [["x"]], "More": [["text", "label"], ["something new", 1]]})
    commands.bertline("add more.xlsx --to a").require(0)
    assert Path("a.csv").read_text().endswith("something new,1\n")


def test_parquet_and_choices_are_told(place: Path) -> None:
    rows = [{"text": f"word {i * i}", "choices": ["a", "b"], "label": str(i % 2)} for i in range(30)]
    pq.write_table(pa.Table.from_pylist(rows), "endings.parquet")
    assert "30 rows of kind choice" in new("endings.parquet")
    assert "all well-formed" in commands.bertline("check").require(0).out


def test_entities_of_japanese_tables_are_tagged_by_character(place: Path) -> None:
    names = ["田中", "鈴木", "佐藤", "高橋"]
    rows = [
        {"text": f"{name}さんは{i}時に来た。", "entities": [{"start": 0, "end": 2, "label": "人名"}]}
        for i in range(6)
        for name in names
    ]
    pq.write_table(pa.Table.from_pylist(rows), "names.parquet")
    assert "24 rows of kind tagging, language ja" in new("names.parquet")
    assert yaml.safe_load(Path("params.yaml").read_text())["prepare"]["names"]["units"] == "characters"


@pytest.mark.parametrize(
    ("texts", "splits"),
    [
        ([f"this is the template of all of these texts in number {i}" for i in range(60)], []),
        ([f"{word} {i}" for i, word in enumerate(WORDS)] * 30, ["test"]),
        ([f"{word} {i}" for i in range(40) for word in WORDS], ["test", "dev"]),
    ],
)
def test_a_split_that_gets_no_row_is_none_of_the_entries(texts: list[str], splits: list[str], place: Path) -> None:
    lines = [f"{text},{'ab'[i % 2]}" for i, text in enumerate(texts)]
    Path("a.csv").write_text("\n".join(["text,label", *lines, ""]))
    ended = commands.bertline("new", "a.csv", "--yes").require(0 if splits else 1)
    if not splits:
        assert "a.csv: split: test gets none of 60 rows; rows with similar texts" in ended.err
        assert not Path("params.yaml").exists()
        return
    params = yaml.safe_load(Path("params.yaml").read_text())
    assert [name for name in params["prepare"]["a"]["split"] if name != "seed"] == splits
    assert ("dev" in params["finetune"]["a"]) == ("dev" in splits)
    assert ("dev gets none of" in ended.out) == ("dev" not in splits)
    prepare.main("a")


def test_columns_may_be_named(place: Path) -> None:
    Path("a.csv").write_text("a,b,c\n" + "".join(f"word {i * i},{i % 2},{i % 3}\n" for i in range(30)))
    new("a.csv", "--label", "c", "--text", "a")
    keys = yaml.safe_load(Path("params.yaml").read_text())["prepare"]["a"]
    assert keys["columns"] == {"text": "a", "label": "c"}
    assert keys["labels"]["names"] == ["0", "1", "2"]
    ended = commands.bertline("new", "a.csv", "other", "--label", "d").require(1)
    assert "no column 'd'; there are: a, b, c" in ended.err


class Terminal(io.StringIO):
    """What a person types."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_is_asked_at_most_three_questions(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a.csv").write_text("a,b,c\n" + "".join(f"word {i * i},{i % 2},{i % 3}\n" for i in range(30)))
    monkeypatch.setattr("sys.stdin", Terminal("\nc\nn\n"))
    assert "nothing is written" in commands.bertline("new", "a.csv").require(2).err
    assert not Path("params.yaml").exists()
    monkeypatch.setattr("sys.stdin", Terminal("\nc\n\n"))
    commands.bertline("new", "a.csv").require(0)
    keys = yaml.safe_load(Path("params.yaml").read_text())["prepare"]["a"]
    assert keys["columns"] == {"text": "a", "label": "c"}


def test_a_failed_write_leaves_the_file(place: Path) -> None:
    Path("a.csv").write_text("text,label\n" + "".join(f"word {i * i},{i % 2}\n" for i in range(30)))
    seen = inspection.inspect([Path("a.csv")])
    new_entries.add_split(seen)
    Path("params.yaml").write_text("prepare:\n  x: [wrong\n")
    with pytest.raises(UsageError, match="not readable as YAML"):
        new_entries.write(Path("params.yaml"), new_entries.entries("a", seen))
    assert Path("params.yaml").read_text() == "prepare:\n  x: [wrong\n"
