"""SQuAD JSON, CoNLL columns, folders, archives' members: what they hold, and one sentence for what they should not."""

import json
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipelines.core import schema, tables
from pipelines.core.errors import InputError, UsageError
from pipelines.data.corpora import codah, custom, glue, jglue, ner_wikipedia_ja
from pipelines.data.formats import archives, conll, records
from pipelines.data.formats.squad_json import questions
from tests.support.file_texts import IOB1, IOB2, SQUAD


def rows(path: Path, **options: Any) -> list[dict[str, Any]]:
    params = custom.Params(files={"train": path.name}, **options)
    task = custom.task(path.parent, "", params)
    parsed = list(custom.parse(path.parent, task, "train", params))
    list(tables.batches(iter(parsed), schema.ROWS[params.kind]))  # every row fits its schema
    return parsed


def test_squads_questions_with_without_and_of_unknown_answers(tmp_path: Path) -> None:
    path = tmp_path / "q.json"
    path.write_text(json.dumps(SQUAD))
    questions = rows(path, kind="span", format="squad", unanswerable=True)
    assert [row["answers"] for row in questions] == [[{"text": "東アジア", "start": 3}], [], None]
    assert {row["context"] for row in questions} == {"日本は東アジアにある。"}


@pytest.mark.parametrize("content", [IOB1, IOB2], ids=["IOB1", "IOB2"])
def test_both_kinds_of_iob_are_the_same_entities(content: str, tmp_path: Path) -> None:
    path = tmp_path / "eng.train"
    path.write_text(content)
    first, second = rows(path, kind="tagging", format="conll")
    assert first["text"] == "EU rejects German British"
    assert [(first["text"][e["start"] : e["end"]], e["label"]) for e in first["entities"]] == [
        ("EU", "ORG"),
        ("German", "MISC"),
        ("British", "MISC"),
    ]
    assert second["entities"] == [{"start": 0, "end": 15, "label": "PER"}]


@pytest.mark.parametrize(("suffix", "delimiter"), [("csv", ","), ("tsv", "\t")])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_empty_line_of_a_table_is_no_row(suffix: str, delimiter: str, end: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    lines = ["", "text,label", "a,x", "", "b,y", "", ""]
    path.write_bytes("".join(line.replace(",", delimiter) + end for line in lines).encode())
    assert [(row["id"], row["text"], row["label"]) for row in rows(path)] == [
        ("train-0", "a", "x"),
        ("train-1", "b", "y"),
    ]


@pytest.mark.parametrize(("suffix", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_columns_without_a_name_are_left_out_where_they_are_empty(suffix: str, delimiter: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    content = "text,label,,\na,x,,\nb,y,,\n"
    path.write_text(content.replace(",", delimiter))
    assert [record for _, record in records.records(path)] == [{"text": "a", "label": "x"}, {"text": "b", "label": "y"}]
    path.write_text(content.replace("y,,", "y,,z").replace(",", delimiter))
    with pytest.raises(InputError, match=r"line 3: column 4 has cells and no name; name it, or remove it"):
        list(records.records(path))


def test_a_folder_for_each_label(tmp_path: Path) -> None:
    for label, text in (("a", "x"), ("b", "ｙ")):
        (tmp_path / "train" / label).mkdir(parents=True)
        (tmp_path / "train" / label / "1.txt").write_text(text)
    assert [(r["id"], r["text"], r["label"]) for r in rows(tmp_path / "train", format="folder")] == [
        ("a/1", "x", "a"),
        ("b/1", "ｙ", "b"),
    ]
    assert [r["text"] for r in rows(tmp_path / "train", format="folder", kind="text")] == ["x", "ｙ"]


def test_choices_numbers_and_spans_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "q", "choices": ["a", "b"], "label": 1}\n')
    assert rows(path, kind="choice")[0]["label"] == "1"
    path.write_text('{"text": "q", "x": "a", "y": "b", "label": 0}\n')
    assert rows(path, kind="choice", choice_columns=["x", "y"])[0]["choices"] == ["a", "b"]
    path.write_text('{"text": "q", "body": "r"}\n')
    pair = {"id": "train-0", "text": "q", "text_pair": "r"}
    assert rows(path, kind="positive_pair", columns={"text_pair": "body"}) == [pair]
    path.write_text('{"text": "q", "label": "2.5"}\n')
    assert rows(path, kind="regression")[0] == {"id": "train-0", "text": "q", "text_pair": "", "label": 2.5}
    path.write_text('{"text": "q r", "entities": [{"start": 2, "end": 3, "label": "X"}]}\n')
    assert rows(path, kind="tagging")[0]["entities"][0]["label"] == "X"


WRONG = {
    "not JSON": ("a.json", "{\n,", {"kind": "span", "format": "squad"}, "line 2: not JSON"),
    "no data": ("a.json", "[]", {"kind": "span", "format": "squad"}, "no list 'data' at its top"),
    "no context": ("a.json", '{"data": [{"paragraphs": [{}]}]}', {"kind": "span", "format": "squad"}, "paragraphs[0]"),
    "columns": ("a", "a O\nb\n", {"kind": "tagging", "format": "conll"}, "line 2: 1 columns, 2 are expected"),
    "a tag": ("a", "a X-PER\n", {"kind": "tagging", "format": "conll"}, "the tag 'X-PER' is not one of"),
    "no number": ("a.csv", "text,label\nx,much\n", {"kind": "regression"}, "the label 'much' is not a number"),
    "a surrogate": (
        "a.jsonl",
        '{"text": "\\ud800", "label": "a"}\n{"text": "", "label": "b"}\n',
        {},
        "half of a surrog",
    ),
    "half of an emoji in a question": (
        "a.json",
        json.dumps(SQUAD).replace('"question": "', '"question": "\\ud83d'),
        {"kind": "span", "format": "squad"},
        "'question' holds half of a surrogate pair",
    ),
    "half of an emoji": ("a.jsonl", '{"text": "I love it \\ud83d", "label": "a"}\n', {}, "text holds half of a surrog"),
    "no list": (
        "a.jsonl",
        '{"text": "x", "choices": "y", "label": 0}\n',
        {"kind": "choice"},
        "a list of texts is expected",
    ),
    "no object": (
        "a.jsonl",
        '{"text": "x", "entities": [1]}\n',
        {"kind": "tagging"},
        "start of an entity is None; a whole number is expected",
    ),
    "a text that is none": (
        "a.json",
        json.dumps(SQUAD).replace('"answer_start": 3', '"answer_start": 99999999999'),
        {"kind": "span", "format": "squad"},
        "qas[0]: an answer starts at 99999999999; the context has 11 characters",
    ),
    "depth": ("a.jsonl", "[" * 100_000 + "\n", {}, "not JSON"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_one_sentence(name: str, tmp_path: Path) -> None:
    file, content, options, sentence = WRONG[name]
    (tmp_path / file).write_text(content)
    with pytest.raises(InputError) as caught:
        rows(tmp_path / file, **options)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_format_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="format squad holds kind span, not single"):
        rows(tmp_path / "a.json", format="squad")


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_LINE_BYTES", 1 << 20)
    (tmp_path / "a.csv").write_bytes(b"text,label\n" + b"x" * (2 << 20))
    with pytest.raises(InputError, match="line 2 is longer than 1 MiB"):
        rows(tmp_path / "a.csv")


def test_a_zips_member_is_read_in_place_and_a_bomb_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "CoLA.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("CoLA/dev.tsv", "gj04\t1\t\tThe sailors rode the breeze.\ngj04\t0\t*\tThem sailors ride.\n")
    parsed = list(glue.parse(tmp_path, glue.TASKS["CoLA"], "dev", glue.Params()))
    assert [row["label"] for row in parsed] == ["acceptable", "unacceptable"]
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(InputError, match=r"no member 'CoLA/train.tsv'.* there are: CoLA/dev.tsv"):
        list(glue.parse(tmp_path, glue.TASKS["CoLA"], "train", glue.Params()))
    monkeypatch.setattr(archives, "MAX_MEMBER_BYTES", 10)
    with pytest.raises(InputError, match="it is refused"):
        list(glue.parse(tmp_path, glue.TASKS["CoLA"], "dev", glue.Params()))
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(InputError, match="not a complete zip archive"):
        list(glue.parse(tmp_path, glue.TASKS["CoLA"], "dev", glue.Params()))


def read_glue(folder: Path) -> list[dict]:
    return list(glue.parse(folder, glue.TASKS["RTE"], "train", glue.Params()))


def read_jsts(folder: Path) -> list[dict]:
    return list(jglue.parse(folder, jglue.TASKS["jsts"], "train", jglue.Params()))


def read_ner(folder: Path) -> list[dict]:
    params = ner_wikipedia_ja.Params(dev=0, test=0)
    return list(ner_wikipedia_ja.parse(folder, ner_wikipedia_ja.TASKS["entities"], "train", params))


def read_codah(folder: Path) -> list[dict]:
    return list(codah.parse(folder, codah.TASKS["full"], "train", codah.Params()))


REAL: dict[str, tuple[str, str, str, Callable[[Path], list[dict]]]] = {  # like the corpora's own files
    "squad": ("a.json", json.dumps(SQUAD, ensure_ascii=False), "span", lambda f: list(questions(f / "a.json"))),
    "conll": ("a", IOB1, "tagging", lambda f: [conll.row(f, s, "") for s in conll.sentences(f / "a", tag=3)]),
    "glue": (
        "train.tsv",
        'index\tsentence1\tsentence2\tlabel\n0\tA "man".\tB.\tentailment\n1\tC\tD\tnot_entailment\n',
        "pair",
        read_glue,
    ),
    "jsts": (
        "train-v1.3.json",
        '{"sentence_pair_id": "0", "sentence1": "犬", "sentence2": "猫", "label": 1.5}\n',
        "regression",
        read_jsts,
    ),
    "ner": (
        "ner.json",
        '[{"text": "東京へ", "entities": [{"name": "東京", "span": [0, 2], "type": "地名"}]}]',
        "tagging",
        read_ner,
    ),
    "codah": ("full_data.tsv", "o\tq\ta\tb\tc\td\t3\np\tq\ta\tb\tc\td\t0\n", "choice", read_codah),
}


@settings(max_examples=400)
@given(st.sampled_from(sorted(REAL)), st.lists(st.tuples(st.integers(0, 10**6), st.integers(-1, 255)), max_size=4))
@example("squad", [])
@example("ner", [(40, ord("9"))])
def test_a_damaged_file_gives_rows_or_one_sentence(name: str, damage: list[tuple[int, int]]) -> None:
    file, content, kind, read = REAL[name]
    data = bytearray(content.encode())
    for place, value in damage:
        if value < 0:
            del data[place % len(data) :]
        elif data:
            data[place % len(data)] = value
        data = data or bytearray(b" ")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / file).write_bytes(bytes(data))
        sentence, rows = "", []
        try:
            rows = read(Path(folder))
            list(tables.batches(iter(rows), schema.ROWS[kind]))
        except InputError as error:
            sentence = str(error)
    assert "\n" not in sentence
    assert damage or rows


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container inside a JSON value with every key of it."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]


@settings(max_examples=300)
@given(
    st.sampled_from(["squad", "ner", "jsts"]),
    st.integers(0, 10**6),
    st.sampled_from([None, 3, -1, True, 1.5, "x", [], {}, [1], {"a": 1}, "\ud800", 10**30]),
)
def test_json_of_another_shape_gives_rows_or_one_sentence(name: str, where: int, value: Any) -> None:
    file, content, kind, read = REAL[name]
    document = json.loads(content)
    container, key = places(document)[where % len(places(document))]
    container[key] = value
    sentence = ""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / file).write_text(json.dumps(document))
        try:
            list(tables.batches(iter(read(Path(folder))), schema.ROWS[kind]))
        except InputError as error:
            sentence = str(error)
    assert "\n" not in sentence
