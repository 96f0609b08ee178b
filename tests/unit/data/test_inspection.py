"""What `bertline new` sees in files of one's own: their splits, their form, and labels as pandas writes them."""

import json
from pathlib import Path

import pandas as pd
import pytest

from bertline import input_rows
from pipelines.core.errors import FindingsError, InputError
from pipelines.data import inspection
from pipelines.data.corpora import custom
from pipelines.graph import new_entries

LINES = [f"word {i * i} x,{'ab'[i % 2]}" for i in range(40)]


WORDS = (("東京都", "B-LOC"), ("へ", "O"), ("三好", "B-PER"), ("葵", "I-PER"), ("と", "O"), ("行く", "O"))
SENTENCE = "東京都へ三好葵と行く"
ENTITIES = [{"start": 0, "end": 3, "label": "LOC"}, {"start": 4, "end": 7, "label": "PER"}]


def csv(path: Path, encoding: str = "utf-8", delimiter: str = ",", first: str = "x") -> Path:
    lines = ["text,label", f"{first},a", *LINES]
    path.write_bytes("".join(line.replace(",", delimiter) + "\n" for line in lines).encode(encoding))
    return path


PLACE = [{"start": 3, "end": 6, "label": "LOC"}]
FORMS = {  # of annotation tools: records without their texts -> kind, columns, target
    "doccano, labels": ({"label": ["a"]}, "single", {}, "a"),
    "Prodigy, choices": ({"options": [{"id": "a"}], "accept": ["a"]}, "single", {"label": "accept"}, "a"),
    "doccano, spans": ({"label": [[3, 6, "LOC"]]}, "tagging", {"entities": "label"}, PLACE),
    "doccano, entities": (
        {"entities": [{"id": 1, "label": "LOC", "start_offset": 3, "end_offset": 6}]}, "tagging", {}, PLACE,
    ),
    "spaCy": ({"entities": [[3, 6, "LOC"]]}, "tagging", {}, PLACE),
    "Prodigy": ({"spans": PLACE, "tokens": [{"text": "in"}]}, "tagging", {"entities": "spans"}, PLACE),
    "Label Studio": (
        {"label": [{"start": 3, "end": 6, "text": "Rom", "labels": ["LOC"]}]}, "tagging", {"entities": "label"}, PLACE,
    ),
    "Hugging Face, tags": (
        {"tokens": ["in", "Rom"], "ner_tags": ["O", "B-LOC"]}, "tagging",
        {"text": "tokens", "entities": "ner_tags"}, PLACE,
    ),
    "Hugging Face, answers": (
        {"question": "Where?", "context": "in Rom", "answers": {"text": ["Rom"], "answer_start": [3]}},
        "span", {}, [{"text": "Rom", "start": 3}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("tool", FORMS)
def test_the_files_of_annotation_tools_are_told(tool: str, checkout: Path) -> None:
    record, kind, columns, target = FORMS[tool]
    line = json.dumps({"text": "in Rom"} | record) + "\n"
    Path("a.jsonl").write_text(line * 10 + line.replace('["a"]', '["b"]') * 10)
    seen = inspection.inspect([Path("a.jsonl")])
    inspection.require_prepared(seen)
    assert (seen.kind, seen.keys.get("columns", {}), seen.broken) == (kind, columns, [])
    options = {key: value for key, value in seen.keys.items() if key != "source"}
    row = custom.first_row(Path("a.jsonl"), "train", custom.Params(**options))
    assert row is not None
    assert row[{"span": "answers", "tagging": "entities"}.get(kind, "label")] == target


def test_a_word_for_no_value_is_told(checkout: Path) -> None:
    Path("a.csv").write_text("text,label\n" + "".join(f"word {i * i},{('a', 'b', 'NaN')[i % 3]}\n" for i in range(30)))
    lines = inspection.sentences(inspection.inspect([Path("a.csv")]))
    assert any(line.startswith("the label 'NaN' (10 rows) often stands for none; leave these") for line in lines)


def test_of_two_spellings_as_frequent_the_usual_width_stays(checkout: Path) -> None:
    labels = ("ｶﾅ", "カナ", "Ａ", "A")
    Path("a.csv").write_text("text,label\n" + "".join(f"word {i * i},{labels[i % 4]}\n" for i in range(40)))
    seen = inspection.inspect([Path("a.csv")])
    assert seen.keys["labels"] == {"names": ["A", "カナ"], "rename": {"ｶﾅ": "カナ", "Ａ": "A"}}


def test_whole_numbers_that_pandas_wrote_as_floats_are_labels(checkout: Path) -> None:
    labels = [None if i % 4 == 0 else i % 2 for i in range(40)]
    pd.DataFrame({"text": [f"word {i * i}" for i in range(40)], "label": labels}).to_parquet("a.parquet")
    seen = inspection.inspect([Path("a.parquet")])
    assert (seen.labels, len(seen.unlabelled), seen.broken) == ({"0": 10, "1": 20}, 10, [])
    assert seen.keys["labels"] == {"names": ["0", "1"], "rename": {"0.0": "0", "1.0": "1"}}


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize(("labels", "names"), [([True, False], ["False", "True"]), ([0.5, 2.5], ["0.5", "2.5"])])
def test_truth_values_and_decimals_are_labels_in_every_form(
    labels: list[float], names: list[str], suffix: str, checkout: Path
) -> None:
    frame = pd.DataFrame({"text": [f"word {i * i}" for i in range(40)], "label": labels * 20})
    if suffix == "jsonl":
        frame.to_json("a.jsonl", orient="records", lines=True)
    else:
        getattr(frame, f"to_{suffix}")(f"a.{suffix}", index=False)
    seen = inspection.inspect([Path(f"a.{suffix}")])
    inspection.require_prepared(seen)
    assert (seen.keys["labels"]["names"], seen.broken) == (names, [])
    assert not [line for line in inspection.sentences(seen) if "become one" in line]


@pytest.mark.parametrize(
    ("name", "indent", "form"),
    [("a.json", 2, "json"), ("a.json", None, "json"), ("a.jsonl", 2, "json"), ("a.json", -1, "jsonl")],
)
def test_json_is_a_list_or_lines_whatever_its_suffix_says(
    name: str, indent: int | None, form: str, checkout: Path
) -> None:
    records = [{"text": f"word {i * i}", "label": f"x{i % 2}"} for i in range(40)]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    Path(name).write_text(lines if indent == -1 else json.dumps([*records, 3], indent=indent))
    seen = inspection.inspect([Path(name)])
    assert (seen.keys.get("format", form), seen.labels) == (form, {"x0": 20, "x1": 20})
    expected = [] if indent == -1 else [f"{name}: item 41: a JSON object is expected, this is int"]
    assert seen.broken == expected


def test_a_truth_value_takes_the_name_of_the_text_that_it_is_like(checkout: Path) -> None:
    labels = [True, "true", "true", False, "no"] * 6
    records = [{"text": f"word {i * i}", "label": label} for i, label in enumerate(labels)]
    Path("a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    seen = inspection.inspect([Path("a.jsonl")])
    inspection.require_prepared(seen)
    names, rename = ["False", "no", "true"], {"True": "true", "False": "False"}
    assert (seen.keys["labels"], seen.broken) == ({"names": names, "rename": rename}, [])
    assert len(rows_of(seen)) == len(labels)


def test_a_column_of_ids_is_one_under_our_name_too(checkout: Path) -> None:
    for file, names in (("train.csv", "id,text,label"), ("test.csv", "id,text,label"), ("other.csv", "text,label,id")):
        rows = [f"{file}-{i},{line}" if file != "other.csv" else f"{line},same" for i, line in enumerate(LINES)]
        Path(file).write_text("\n".join([names, *rows, ""]))
    seen = inspection.inspect([Path("train.csv"), Path("test.csv")])
    assert seen.keys["columns"] == {"id": "id"}
    assert rows_of(seen)[0]["id"] == "train.csv-0"
    Path("other.csv").rename("test.csv")
    assert "columns" not in inspection.inspect([Path("train.csv"), Path("test.csv")]).keys, "test.csv has no ids"


@pytest.mark.parametrize("at", [0, 3])
def test_a_json_record_without_a_label_has_none_whichever_it_is(at: int, checkout: Path) -> None:
    records = [{"text": f"word {i * i}", **({"label": "ab"[i % 2]} if i != at else {})} for i in range(10)]
    Path("a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    seen = inspection.inspect([Path("a.jsonl")])
    assert (seen.unlabelled, seen.broken) == ([f"line {at + 1}"], [])
    assert len(rows_of(seen)) == 9


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("test.csv", {"encoding": "cp932", "first": "映画の公開日が決定"}, "their encoding is 'utf-8' and 'cp932'"),
        ("test.tsv", {"delimiter": "\t"}, "their format is 'csv' and 'tsv'"),
        ("test.csv", {"delimiter": ";"}, "their delimiter is ',' and ';'"),
    ],
)
def test_files_of_two_forms_are_refused(name: str, options: dict[str, str], why: str, checkout: Path) -> None:
    files = [csv(Path("train.csv"), first="映画"), csv(Path(name), **options)]
    with pytest.raises(InputError, match=f"train.csv and {name}: {why}; save both alike"):
        inspection.inspect(files)


@pytest.mark.parametrize("first", ["train", "test"])
def test_ascii_stands_beside_any_encoding(first: str, checkout: Path) -> None:
    csv(Path(f"{first}.csv"), "cp932", first="映画の公開日が決定")
    csv(Path("test.csv" if first == "train" else "train.csv"))
    seen = inspection.inspect([Path("train.csv"), Path("test.csv")])
    assert (seen.keys["encoding"], seen.rows) == ("cp932", {"train": 41, "test": 41})


@pytest.mark.parametrize("name", ["2024-03-01", "2024", "1e3", "on", "null", "0o17", "12_30", "true"])
def test_a_name_that_yaml_reads_as_another_value_stands_in_quotes(name: str, checkout: Path) -> None:
    seen = inspection.inspect([csv(Path("a.csv"))])
    new_entries.add_split(seen)
    new_entries.write(Path("params.yaml"), new_entries.entries(name, seen))
    new_entries.write(Path("params.yaml"), new_entries.entries("other", seen))
    assert f"{name}-baseline" in Path("params.yaml").read_text()


def tags(by_character: bool) -> str:
    """A sentence in CoNLL's columns, a line for each word or each character."""
    if not by_character:
        return "".join(f"{word}\t{tag}\n" for word, tag in WORDS) + "\n"
    lines = [
        f"{character}\t{tag if i == 0 else tag.replace('B-', 'I-')}\n"
        for word, tag in WORDS
        for i, character in enumerate(word)
    ]
    return "".join(lines) + "\n"


@pytest.mark.parametrize("by_character", [True, False])
def test_a_japanese_tagger_learns_the_texts_that_it_is_sent(by_character: bool, checkout: Path) -> None:
    Path("names.conll").write_text(tags(by_character) * 3, encoding="utf-8")
    seen = inspection.inspect([Path("names.conll")])
    keys = {key: value for key, value in seen.keys.items() if key != "source"}
    assert (seen.rows, keys["units"], keys["language"]) == ({"train": 3}, "characters", "ja")
    params = custom.Params(**keys)
    task = custom.task(Path("names.conll"), "", params)
    rows = list(custom.parse(Path("names.conll"), task, "train", params))
    assert [(row["text"], row["entities"]) for row in rows] == [(SENTENCE, ENTITIES)] * 3
    asked = input_rows.rows(task, ([list(SENTENCE)],)).table.column("text").to_pylist()
    assert asked == [SENTENCE], "the Python door joins words as the rows do"


def choices(labels: list[object]) -> Path:
    rows = [
        {"text": f"word {i * i}", "choices": ["a", "b", "c", "d"], "label": label} for i, label in enumerate(labels)
    ]
    Path("a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + "broken\n")
    return Path("a.jsonl")


@pytest.mark.parametrize("names", [[0, 1, 2, 3], [1, 2, 3, 4], ["A", "B", "C", "D"]])
def test_choices_are_named_from_0_or_1_or_by_letters(names: list[object], checkout: Path) -> None:
    seen = inspection.inspect([choices(names * 2)])
    inspection.require_prepared(seen)
    assert seen.keys["leave_out"] == ["broken"]
    read = rows_of(seen)
    assert [row["label"] for row in read] == ["0", "1", "2", "3"] * 2
    told = "the label 'B' is the choice at position 1"
    assert (told in inspection.sentences(seen)) == ("B" in names)


def rows_of(seen: inspection.Inspection) -> list[dict]:
    params, raw = custom.Params(**{k: v for k, v in seen.keys.items() if k != "source"}), Path(seen.keys["source"])
    return list(custom.parse(raw, custom.task(raw, "", params), "train", params))


def test_new_refuses_what_prepare_would_refuse(checkout: Path) -> None:
    seen = inspection.inspect([choices([0, 1, 4])])
    with pytest.raises(FindingsError, match=r"^a\.jsonl: line 3: no label '4'; there are: 0, 1, 2, 3$"):
        inspection.require_prepared(seen)
    Path("a.csv").write_text("text,label\n" + "".join(f"word {i * i},x\n" for i in range(9)))
    with pytest.raises(InputError, match="1 labels in all; a classifier needs two"):
        inspection.require_prepared(inspection.inspect([Path("a.csv")]))
    questions = {
        "context": "a b",
        "qas": [{"id": "7", "question": "a?", "answers": [{"text": "b", "answer_start": 2}]}],
    }
    Path("a.json").write_text(json.dumps({"data": [{"paragraphs": [questions, questions]}]}))
    with pytest.raises(InputError, match=r"a\.json: id 7: the id '7' occurs twice"):
        inspection.require_prepared(inspection.inspect([Path("a.json")]))


def test_broken_rows_that_only_prepare_meets_are_counted_and_left_out(checkout: Path) -> None:
    file = choices([0, 1, 2, 3] * 5)
    with file.open("a") as out:
        out.write(json.dumps({"text": "odd", "choices": ["a", "b"], "label": 1}) + "\n")
    seen = inspection.inspect([file])
    (line,) = inspection.require_prepared(seen)
    assert line == "1 more broken rows are left out: a.jsonl: line 22: 2 choices; the task has 4"
    assert (seen.rows["train"], len(seen.broken), len(rows_of(seen))) == (20, 2, 20)
    assert inspection.require_prepared(seen) == []
    with file.open("a") as out:
        out.write(json.dumps({"text": "odd too", "choices": ["a", "b", "c", "d"], "label": 4}) + "\n")
    with pytest.raises(FindingsError, match="no label '4'"):
        inspection.require_prepared(inspection.inspect([file]))


def test_a_label_of_the_test_alone_is_a_label(checkout: Path) -> None:
    Path("train.conll").write_text("Ada B-PER\nsang O\n")
    Path("test.conll").write_text("Oslo B-LOC\nsang O\n")
    seen = inspection.inspect([Path("train.conll"), Path("test.conll")])
    assert seen.keys["labels"] == {"names": ["LOC", "PER"]}
    inspection.require_prepared(seen)


def test_files_that_are_no_texts_of_a_folder_are_told(checkout: Path) -> None:
    for i in range(20):
        for name in (f"{'ab'[i % 2]}/{i}.txt", "a/old/1.txt", "README.md", "b/.1.txt"):
            file = Path("mails", name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"word {i * i}")
    seen = inspection.inspect([Path("mails")])
    line = "2 files are not read: 'README.md', 'a/old/1.txt'; a text is LABEL/NAME.txt"
    assert (line in inspection.sentences(seen), seen.rows) == (True, {"train": 20})


def test_labels_that_are_not_named_are_counted(checkout: Path) -> None:
    lines = [f"word {i * i} x,l{i % 25}" for i in range(100)]
    Path("a.csv").write_text("\n".join(["text,label", *lines, ""]))
    (line,) = (line for line in inspection.sentences(inspection.inspect([Path("a.csv")])) if "labels" in line)
    assert line.startswith("labels: 25, of which the most frequent are l0 4, l1 4, ")
