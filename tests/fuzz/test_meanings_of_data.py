"""Changes that would change what an input means: each is refused in a sentence, or counted where a person sees it.

A test for each, since a fuzz cannot tell a changed meaning from another input.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.core import params, paths, tables
from pipelines.core.errors import InputError
from pipelines.graph import checking
from pipelines.stages import prepare

ROWS = [{"text": f"t{i}", "label": "ab"[i % 2]} for i in range(4)]
PAIR = {"text": "a", "text_pair": "b"}
ASKED = {"question": "何？", "context": "犬がいる。"}


def lines(*rows: Any) -> str:
    return "\n".join(row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows)


def labelled(label: Any) -> str:
    return lines(*ROWS, {"text": "x", "label": label})


def scored(label: Any) -> str:
    return lines({**PAIR, "label": 1}, {**PAIR, "label": label})


def tagged(*entities: Any) -> str:
    return lines({"text": "犬と猫", "entities": list(entities)})


def entity(start: Any, end: Any, label: Any = "a") -> dict[str, Any]:
    return {"start": start, "end": end, "label": label}


def question_row(*answers: Any) -> str:
    return lines({**ASKED, "answers": list(answers)})


def chosen(choices: Any, label: Any = 0) -> str:
    return lines(
        {"text": "x", "choices": ["a", "b", "c"], "label": 1}, {"text": "y", "choices": choices, "label": label}
    )


def conll(end: str) -> str:
    return f"EU B-ORG\nrejects O{end}German O\n"


CONLL = {"kind": "tagging", "format": "conll"}


def impossible(written: Any) -> str:
    question = {
        "id": "q",
        "question": "Where?",
        "answers": [{"text": "Nara", "answer_start": 0}],
        "is_impossible": written,
    }
    return json.dumps({"data": [{"paragraphs": [{"context": "Nara", "qas": [question]}]}]})


# name -> what the file holds, more of the entry (its kind, ...), what is said; a name's last word is the file's format
CORPORA: dict[str, tuple[str, dict[str, Any], str]] = {
    "two columns of one name: csv": ("text,label,label\nx,a,b\ny,b,a\n", {}, "two columns are named 'label'"),
    "two columns of one name: tsv": ("text\ttext\tlabel\nx\ty\ta\n", {}, "two columns are named 'text'"),
    "a name twice: jsonl": (lines('{"text": "x", "label": "a", "label": "b"}'), {}, "the name 'label' occurs twice"),
    "a row without a label: jsonl": (labelled(None), {}, "train: 1 of 5 rows have no label, such as ['train-4']"),
    "an empty label: csv": ("text,label\nx,a\ny,b\nz,\n", {}, "train: 1 of 3 rows have no label"),
    "no label at all: jsonl": (lines({"text": "x", "label": None}), {}, "0 labels in all; a classifier needs two"),
    "two labels in a list: jsonl": (labelled(["a", "b"]), {}, "line 5: 2 labels, ['a', 'b']; one label a text"),
    "NaN as a label: jsonl": (lines(*ROWS, '{"text": "x", "label": NaN}'), {}, "line 5: not JSON: NaN is not a number"),
    "1.0 as a label: jsonl": (labelled(1.0), {}, "the label is 1.0; a text or a whole number is expected"),
    "true as a label: jsonl": (labelled(True), {}, "the label is True; a text or a whole number is expected"),
    "a label of 5,000 digits: jsonl": (labelled("L").replace('"L"', "9" * 5000), {}, "line 5: not JSON"),
    "an unknown label: jsonl": (labelled("c"), {"labels": ["a", "b"]}, "line 5: no label 'c'; there are: a, b"),
    "texts as labels: jsonl": (
        lines(*({"text": "ab"[i % 2], "label": f"t{i}"} for i in range(30))),
        {},
        "30 labels for 30 rows; is another",
    ),
    "true as a number: csv": ("text,text_pair,label\na,b,true\n", {"kind": "regression"}, "label 'true' is not a num"),
    "true as JSON's number: jsonl": (scored(True), {"kind": "regression"}, "the label True is not a number"),
    "1_0 as a number: jsonl": (scored("1_0"), {"kind": "regression"}, "line 2: the label '1_0' is not a number"),
    "a number with a space: jsonl": (scored(" 1"), {"kind": "regression"}, "the label ' 1' is not a number"),
    "an infinite number: jsonl": (scored("1e999"), {"kind": "regression"}, "the label '1e999' is not a number"),
    "a number of 400 digits: jsonl": (scored(10**400), {"kind": "regression"}, "is not a number"),
    "a reversed entity: jsonl": (tagged(entity(2, 1)), {"kind": "tagging"}, "the entity [2, 1) is outside the text"),
    "an empty entity: jsonl": (tagged(entity(1, 1)), {"kind": "tagging"}, "the entity [1, 1) is outside the text"),
    "a negative entity: jsonl": (tagged(entity(-1, 1)), {"kind": "tagging"}, "the entity [-1, 1) is outside the"),
    "an entity outside: jsonl": (tagged(entity(2, 4)), {"kind": "tagging"}, "the text, which has 3 characters"),
    "entities that overlap: jsonl": (
        tagged(entity(0, 2), entity(1, 3)),
        {"kind": "tagging"},
        "[1, 3) overlaps the one",
    ),
    "an entity twice: jsonl": (tagged(entity(0, 1), entity(0, 1)), {"kind": "tagging"}, "[0, 1) overlaps the one"),
    "a label of no name: jsonl": (
        tagged(entity(0, 1, "")),
        {"kind": "tagging"},
        "the entity [0, 1) has an empty label",
    ),
    "a tag in a list: jsonl": (tagged(entity(0, 1, ["a"])), {"kind": "tagging"}, "label of an entity is ['a']; a text"),
    "a place as text: jsonl": (
        tagged(entity("0", 1)),
        {"kind": "tagging"},
        "start of an entity is '0'; a whole number",
    ),
    "a place as true: jsonl": (
        tagged(entity(0, True)),
        {"kind": "tagging"},
        "end of an entity is True; a whole number",
    ),
    "too few choices: jsonl": (chosen(["a", "b"]), {"kind": "choice"}, "line 2: 2 choices; the task has 3"),
    "too many choices: jsonl": (chosen(["a"] * 4), {"kind": "choice"}, "line 2: 4 choices; the task has 3"),
    "a choice that is null: jsonl": (chosen(["a", None, "c"]), {"kind": "choice"}, "a list of texts is expected"),
    "choices as one text: jsonl": (chosen("abc"), {"kind": "choice"}, "choices is 'abc'; a list of texts is expected"),
    "the fourth of three choices: jsonl": (chosen(["a", "b", "c"], 3), {"kind": "choice"}, "no label '3'"),
    "an answer before the text: jsonl": (
        question_row({"text": "犬", "start": -5}),
        {"kind": "span"},
        "an answer starts at -5",
    ),
    "an answer behind the text: jsonl": (
        question_row({"text": "犬", "start": 5}),
        {"kind": "span"},
        "context has 5 characters",
    ),
    "an empty answer: jsonl": (question_row({"text": "", "start": 0}), {"kind": "span"}, "an answer is empty"),
    "an answer without a place: jsonl": (question_row({"text": "犬"}), {"kind": "span"}, "start of an answer is None"),
    "an answer that is null: jsonl": (
        question_row(None),
        {"kind": "span"},
        "text of an answer is None; a text is expected",
    ),
    "answers that are null: jsonl": (lines({**ASKED, "answers": None}), {"kind": "span"}, "1 of 1 rows have no label"),
    "no answer where each has one: jsonl": (
        question_row(),
        {"kind": "span"},
        "`unanswerable: true` says that questions may",
    ),
    "an answer of another place: jsonl": (
        question_row({"text": "犬", "start": 1}),
        {"kind": "span"},
        "1 rows with an answer that is not the text at its position",
    ),
    "an id twice: jsonl": (
        lines(*({**row, "n": 1} for row in ROWS)),
        {"columns": {"id": "n"}},
        "line 2: the id '1' occurs twice",
    ),
    "an id in a list: jsonl": (
        lines({**ROWS[0], "n": [1]}, ROWS[1]),
        {"columns": {"id": "n"}},
        "the id is [1]; a text",
    ),
    "half of a surrogate pair: jsonl": (
        lines(*ROWS, '{"text": "\\ud800", "label": "a"}'),
        {},
        "half of a surrogate pair",
    ),
    "a column for another kind: jsonl": (lines(*ROWS), {"columns": {"context": "c"}}, "no column 'context'"),
    "units of words: jsonl": (lines(*ROWS), {"units": "characters"}, "units: has no effect on rows of kind single"),
    "labels of a number: jsonl": (
        scored(1),
        {"kind": "regression", "labels": ["a"]},
        "labels: has no effect on rows of kind regression",
    ),
    "a label listed twice: jsonl": (lines(*ROWS), {"labels": ["a", "a"]}, "one of them is empty or occurs twice"),
    "rows of no value: jsonl": (
        lines(*ROWS),
        {"where": {"train": {"label": "c"}}},
        "no row has {'label': 'c'}; there are a, b",
    ),
    "CR as a line end: conll": (conll("\r"), CONLL, "line 2: it holds U+000D"),
    "U+2028 as a line end: conll": (conll("\u2028"), CONLL, "line 2: it holds U+2028"),
    "false in quotes: json": (
        impossible("false"),
        {"kind": "span", "format": "squad"},
        "'is_impossible' is 'false'; write true or false, without quotes",
    ),
    "f1 of three labels: jsonl": (labelled("c"), {"metric": "f1"}, "metric f1 scores the second of two labels"),
    "accuracy of a number: jsonl": (scored(1), {"kind": "regression", "metric": "accuracy"}, "no metric of kind regre"),
}


@pytest.mark.parametrize("name", CORPORA)
def test_a_wrong_corpus_is_refused_or_reported(name: str, place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    content, more, message = CORPORA[name]
    file = Path(f"rows.{name.rpartition(' ')[2]}")
    file.write_text(content, encoding="utf-8")
    entry = {"corpus": "custom", "source": ".", "files": {"train": file.name}, **more}
    Path("params.yaml").write_text(yaml.safe_dump({"prepare": {"it": entry}}, allow_unicode=True))
    try:
        prepare.main("it")
        output = "".join(capfd.readouterr())
    except InputError as error:
        output = str(error)
        assert not paths.rows("it").exists()
    assert message in output


COUNTED: dict[str, tuple[str, list[Any]]] = {
    "a row twice": ("duplicates", [*ROWS, ROWS[0]]),
    "a text of nothing": ("empty", [*ROWS, {"text": " ", "label": "a"}]),
    "another encoding": ("odd/UTF-8 read as Latin-1", [*ROWS, {"text": "ã\x81\x82", "label": "a"}]),
    "a control character": ("odd/control character", [*ROWS, {"text": "a\x07b", "label": "a"}]),
    "a lost character": ("odd/replacement character", [*ROWS, {"text": "a\ufffdb", "label": "a"}]),
}


@pytest.mark.parametrize("name", COUNTED)
def test_what_a_corpus_may_hold_is_counted(name: str, place: Path) -> None:
    where, rows = COUNTED[name]
    Path("rows.jsonl").write_text(lines(*rows), encoding="utf-8")
    entry = {"corpus": "custom", "source": ".", "files": {"train": "rows.jsonl"}}
    Path("params.yaml").write_text(yaml.safe_dump({"prepare": {"it": entry}}))
    prepare.main("it")
    counted = json.loads((paths.rows("it") / "quality.json").read_text())["splits"]["train"]
    for key in where.split("/"):
        counted = counted[key]
    assert counted["rows"] == 1


# name -> what the file holds, its kind, a column of the rows and its values
KEPT: dict[str, tuple[str, str, str, list[Any]]] = {
    "the second text of a number: csv": (
        "text,text_pair,label\na,b,1\nc,d,2\n",
        "regression",
        "text_pair",
        ["b", "d"],
    ),
    "a line end in quotes: csv": ('text,label\n"a\u2028b",x\n"c\rd",y\n', "single", "text", ["a\u2028b", "c\rd"]),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_a_corpus_says_is_in_its_rows(name: str, place: Path) -> None:
    content, kind, column, expected = KEPT[name]
    file = Path(f"rows.{name.rpartition(' ')[2]}")
    file.write_bytes(content.encode())
    entry = {"corpus": "custom", "source": ".", "kind": kind, "files": {"train": file.name}}
    Path("params.yaml").write_text(yaml.safe_dump({"prepare": {"it": entry}}))
    prepare.main("it")
    assert tables.read(paths.rows("it") / "train.parquet").column(column).to_pylist() == expected


def test_links_and_devices_in_a_folder_of_texts_are_refused(place: Path) -> None:
    entry = {"corpus": "custom", "source": "texts", "format": "folder", "files": {"train": "."}}
    Path("params.yaml").write_text(yaml.safe_dump({"prepare": {"it": entry}}))
    for number, make in enumerate((lambda to: to.symlink_to("/etc/passwd"), os.mkfifo, Path.mkdir)):
        shutil.rmtree("texts", ignore_errors=True)
        for label in "ab":
            Path("texts", label).mkdir(parents=True)
            Path("texts", label, "1.txt").write_text("x")
        make(Path(f"texts/a/odd{number}.txt"))
        with pytest.raises(InputError, match=f"texts/a/odd{number}.txt: a link, a folder or a device"):
            prepare.main("it")


PARAMS = {
    "a name that leaves its folder": ("ingest: {../../x: {corpus: codah}}", "'../../x' is not a valid name"),
    "a name that is a command": ("ingest: {'x; touch F #': {corpus: codah}}", "'x; touch F #' is not a valid name"),
    "a name with a dot, which DVC takes for a step": ("ingest: {a.b: {corpus: codah}}", "'a.b' is not a valid name"),
    "an empty name": ("ingest: {'': {corpus: codah}}", "'' is not a valid name"),
    "a name that is an option": ("ingest: {-rf: {corpus: codah}}", "'-rf' is not a valid name"),
    "a number as a name": ("ingest: {1: {corpus: codah}}", "the key 1 is not a text; write it in quotes"),
    "true as a name": ("ingest: {true: {corpus: codah}}", "the key True is not a text; write it in quotes"),
    "an octal number": ("encode: {a: {task: t, vocab: v, max_length: 010}}", "'010' is one value in YAML 1.1 and"),
    "a split that leaves its folder": (
        "prepare: {a: {corpus: codah, source: x}}\nbaseline: {b: {task: a, split: ../x}}",
        "baseline.b.split: '../x'",
    ),
    "a section that is a list": ("encode: [a]", "encode: ['a'] is not a mapping of names to entries"),
    "a section that is a number": ("encode: 3", "encode: 3 is not a mapping of names to entries"),
    "a date that is none": ("ingest: {a: {corpus: 2020-13-45}}", "not readable as YAML: month must be in 1..12"),
    "a date": ("ingest: {a: {corpus: 2020-01-02}}", "ingest.a.corpus: datetime.date(2020, 1, 2) is neither a text"),
    "a tag of YAML": ("ingest: {a: {corpus: !!int abc}}", "not readable as YAML: invalid literal for int()"),
    "a set": ("ingest: {a: {corpus: !!set {x}}}", "is neither a text nor a number"),
    "nesting": ("ingest: " + "[" * 3000 + "]" * 3000, "nested too deep"),
    "nesting that YAML reads": ("ingest: {a: {corpus: " + "[" * 40 + "]" * 40 + "}}", "nested more than 30 deep"),
    "itself": ("ingest: {a: &a {corpus: *a}}", "nested more than 30 deep"),
    "an unhashable key": ("ingest: {? [a] : b}", "not readable as YAML: while constructing a mapping"),
    "a bomb": (
        "defaults:\n  a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"  a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9)),
        "more than 100,000 values",
    ),
    "true as a number": (
        "encode: {a: {task: t, vocab: v, max_length: true}}",
        "max_length: True: input should be a valid integer",
    ),
    "a text as a number": ("encode: {a: {task: t, vocab: v, max_length: '16'}}", "max_length: '16': input should be"),
    "an infinite number": (
        "finetune: {a: {data: d, encoder: e, learning_rate: .inf}}",
        "learning_rate: inf: input should be",
    ),
    "a huge number": ("encode: {a: {task: t, vocab: v, max_length: 99999999999}}", "99999999999 is too large a number"),
    "two models of one name": (
        "encode: {d: {task: t, vocab: v, max_length: 9}}\nprepare: {t: {corpus: codah, source: x}}\n"
        "finetune: {a: {data: d, encoder: e}}\nimport_weights: {a: {source: x}}",
        "import_weights.a and finetune.a would write the same artefact",
    ),
    "patience of pretraining": (
        "pretrain: {a: {data: d, start: s, objective: mlm, patience: 2}}",
        "pretraining measures a loss, not a score",
    ),
}


@pytest.mark.parametrize("name", PARAMS)
def test_wrong_params_are_refused(name: str, place: Path) -> None:
    content, message = PARAMS[name]
    Path("params.yaml").write_text(content, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        checking.check()
    assert message in str(caught.value)


def test_a_number_is_written_as_people_write_it(place: Path) -> None:
    """YAML 1.1 reads 1e-4 as a text; YAML 1.2, by which DVC reads the same file, as a number."""
    Path("params.yaml").write_text("defaults: {a: 1e-4, b: 1.0e-4, c: 1E5, d: -2e+3, e: 1e, f: e5}")
    assert params.read()["defaults"] == {"a": 1e-4, "b": 1e-4, "c": 1e5, "d": -2e3, "e": "1e", "f": "e5"}


def test_there_are_sixty_meanings() -> None:
    assert len(CORPORA) + len(COUNTED) + len(PARAMS) >= 60
