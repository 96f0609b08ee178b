"""A corpus of one's own: every format read alike, every mistake named with its place."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.core import paths, provenance, tables
from pipelines.core.errors import FindingsError, InputError
from pipelines.data.corpora import custom
from pipelines.stages import baseline, prepare

ROWS = [{"text": "猫, です", "label": "a"}, {"text": "", "label": "b"}, {"text": "😀😀", "label": "a"}]
FILES = {
    "csv": 'text,label\r\n"猫, です",a\r\n,b\r\n😀😀,a\r\n',
    "tsv": "text\tlabel\n猫, です\ta\n\tb\n😀😀\ta\n",
    "jsonl": "\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS) + "\n",
}


def read(path: Path, **options: object) -> list[dict]:
    params = custom.Params(files={"train": path.name}, **options)  # type: ignore[arg-type]
    task = custom.task(path.parent, "", params)
    return list(custom.parse(path.parent, task, "train", params))


@pytest.mark.parametrize("form", [*FILES, "parquet"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
def test_every_format_gives_the_same_rows(form: str, mark: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"rows.{form}"
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    else:
        path.write_bytes(mark + FILES[form].encode())
    assert [{k: row[k] for k in ("text", "label")} for row in read(path)] == ROWS


WRONG = {
    "an empty file": ("a.csv", b"", "the file is empty"),
    "a header alone": ("a.csv", b"text,label\n", "a header but no rows"),
    "not UTF-8": ("a.csv", "text,label\n日本,a\n".encode("cp932"), "line 2: byte 11 is not UTF-8"),
    "a NUL byte": ("a.tsv", b"text\tlabel\nx\0\ta\n", "line 2: a NUL byte"),
    "too few fields": ("a.tsv", b"text\tlabel\nx\ta\ny\n", "line 3: 1 fields, 2 are expected"),
    "too many fields": ("a.csv", b"text,label\nx,a,z\n", "line 2: 3 fields, the header has 2"),
    "no such column": ("a.csv", b"txt,label\nx,a\n", "no column 'text' (did you mean 'txt'?)"),
    "not JSON": ("a.jsonl", b'{"text": "x", "label": "a"}\n{"text": \n', "line 2: not JSON"),
    "no object": ("a.jsonl", b"[1]\n", "line 1: a JSON object is expected"),
    "a text that is none": ("a.jsonl", b'{"text": 3, "label": "a"}\n{"text": "x", "label": "b"}\n', "text is 3"),
    "a label alone": ("a.csv", b"text,label\nx,a\n", "1 labels in all"),
    "an unknown format": ("a.xls", b"x", "no format 'xls'"),
    "no Parquet": ("a.parquet", b"PAR1 nonsense", "not a readable Parquet file"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_names_its_place(name: str, tmp_path: Path) -> None:
    file, content, sentence = WRONG[name]
    (tmp_path / file).write_bytes(content)
    with pytest.raises(InputError) as caught:
        read(tmp_path / file)
    assert sentence in str(caught.value)
    assert file in str(caught.value)


def test_a_foreign_label_and_a_double_id_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("n,text,label\n1,x,a\n1,y,c\n")
    with pytest.raises(InputError, match=r"line 3: the id '1' occurs twice"):
        read(path, columns={"id": "n"}, labels=["a", "c"])
    with pytest.raises(InputError, match=r"line 3: no label 'c'; there are: a, b"):
        read(path, labels=["a", "b"])


def test_train_is_learned_from_wherever_it_stands(checkout: Path) -> None:
    """Tools that write YAML may sort its keys; dev comes before train then."""
    Path("train.csv").write_text("text,label\n" + "猫,a\n犬,b\n" * 3)
    Path("dev.csv").write_text("text,label\n猫,b\n犬,a\n")  # the other way about
    rows = {"corpus": "custom", "source": ".", "files": {"dev": "dev.csv", "train": "train.csv"}}
    unlearned = rows | {"files": {"dev": "train.csv"}}
    values = {
        "prepare": {"animals": rows, "unlearned": unlearned},
        "baseline": {"svm": {"task": "animals", "split": "dev"}},
    }
    values["baseline"]["none"] = {"task": "unlearned", "split": "dev"}
    Path("params.yaml").write_text(yaml.safe_dump(values, allow_unicode=True))
    prepare.main("animals")
    prepare.main("unlearned")
    baseline.main("svm")
    answers = tables.read(paths.predictions("svm") / "dev.parquet")
    assert answers.column("label").to_pylist()[:2] == ["a", "b"]
    with pytest.raises(InputError, match=r"task custom: no split is named train \(dev\); training needs it"):
        baseline.main("none")


def test_rows_are_the_same_whatever_is_expected_of_them(checkout: Path) -> None:
    Path("a.csv").write_text("text,label\n" + "猫,a\n犬,b\n" * 3)
    digests = set()
    for expect in ({}, {"max_duplicates": 0.9}):
        rows = {"corpus": "custom", "source": "a.csv", "expect": expect}
        Path("params.yaml").write_text(yaml.safe_dump({"prepare": {"animals": rows}}))
        prepare.main("animals")
        digests.add(provenance.content_digest(paths.rows("animals")))
    assert len(digests) == 1


@settings(max_examples=150)
@given(st.sampled_from(list(FILES)), st.data())
def test_a_damaged_file_gives_rows_or_one_sentence(form: str, data: st.DataObject) -> None:
    import tempfile

    content = bytearray(FILES[form].encode())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"rows.{form}"
        path.write_bytes(bytes(content))
        try:
            answer: object = [row["text"] for row in read(path)]
        except InputError as error:
            answer = str(error)
    assert str(path) in answer if isinstance(answer, str) else all(isinstance(text, str) for text in answer)


def test_rows_are_taken_by_a_columns_value(tmp_path: Path) -> None:
    path = tmp_path / "all.tsv"
    path.write_text("text\tlabel\tset\na\tx\tTRAIN\nb\ty\tTEST\nc\ty\tTRAIN\n")
    params = custom.Params(
        files={"train": path.name, "test": path.name}, where={"train": {"set": "TRAIN"}, "test": {"set": "TEST"}}
    )
    task = custom.task(tmp_path, "", params)
    texts = {split: [row["text"] for row in custom.parse(tmp_path, task, split, params)] for split in task.splits}
    assert texts == {"train": ["a", "c"], "test": ["b"]}


def test_label_names_say_what_fractions_and_truths_are(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps({"text": "x", "label": label}) for label in (True, 1.0, 2, "z")))
    rows = read(path, label_names={"True": "yes", "1.0": "one", "2": "two"})
    assert [row["label"] for row in rows] == ["yes", "one", "two", "z"]


@pytest.mark.parametrize("label", [[["a"]], {"a": 1}])
def test_a_label_that_is_a_list_or_an_object_is_a_broken_row(label: object, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps({"text": "x", "label": one}) for one in ("y", label, "z")))
    for labels in (["y", "z"], {"names": ["y", "z"]}):
        with pytest.raises(InputError, match=r"line 2: the label is .*; a text or a whole number is expected"):
            read(path, labels=labels)
        assert [row["label"] for row in read(path, labels=labels, leave_out=["broken"])] == ["y", "z"]


def test_several_labels_are_a_broken_row_and_a_label_that_is_not_listed_names_the_key(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps({"text": "x", "label": one}) for one in (["y"], [], ["y", "z"], ["a"])))
    with pytest.raises(FindingsError) as raised:
        read(path, labels=["y", "z"])
    assert raised.value.findings == [
        f"{path}: line 3: 2 labels, ['y', 'z']; one label a text is learned",
        f"{path}: line 4: no label 'a'; there are: y, z; `labels` in params.yaml lists them",
    ]
    assert [row["label"] for row in read(path, labels=["y", "z"], leave_out=["broken"])] == ["y", None]


def test_decimal_numbers_are_labels_numbers_and_ids(tmp_path: Path) -> None:
    path, cells = tmp_path / "a.parquet", [Decimal("1.00"), Decimal("2.50")]
    pq.write_table(pa.table({"text": ["x", "y"], "label": cells, "id": [Decimal(1), Decimal(2)]}), path)
    rows = read(path, columns={"id": "id"})
    assert [(row["id"], row["label"]) for row in rows] == [("1", "1"), ("2", "2.50")]
    assert [row["label"] for row in read(path, kind="regression")] == [1.0, 2.5]


@pytest.mark.parametrize(
    ("rename", "sentence"),
    [
        ({}, r"line 1: the tag 0 has no name; write `labels: \{rename: "),
        ({"0": "O", "1": "B-PER"}, "line 2: 1 words have the tags .*; a tag for each word is expected"),
    ],
)
def test_numbers_of_tags_need_names(rename: dict[str, str], sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = ['{"tokens": ["by", "Ann"], "ner_tags": [0, 1]}', '{"tokens": ["Ann"], "ner_tags": [1, 1]}']
    path.write_text("\n".join([*lines, '{"tokens": ["x"], "ner_tags": null}']))
    labels = {"names": ["PER"], "rename": rename}
    described: Any = {"kind": "tagging", "columns": {"text": "tokens", "entities": "ner_tags"}, "labels": labels}
    with pytest.raises(InputError, match=sentence):
        read(path, **described)
    if rename:
        first, last = read(path, **described, leave_out=["broken"])
        assert (first["text"], first["entities"]) == ("by Ann", [{"start": 3, "end": 6, "label": "PER"}])
        assert (last["text"], last["entities"]) == ("x", None)


def test_a_file_that_is_not_there_names_the_cure(checkout: Path) -> None:
    Path("a.csv").write_text("text,label\nx,a\ny,b\n")
    entry = {"corpus": "custom", "source": ".", "files": {"train": "a.csv", "test": "b.csv"}}
    Path("params.yaml").write_text(yaml.safe_dump({"prepare": {"it": entry}}))
    with pytest.raises(InputError, match=r"b\.csv: no such file; list under `splits:` those of test, train that"):
        prepare.main("it")
    Path("params.yaml").write_text(yaml.safe_dump({"prepare": {"it": entry | {"splits": ["train"]}}}))
    prepare.main("it")


def test_a_field_may_be_longer_than_pythons_own_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"text,label\n{'x' * 200_000},a\ny,b\n")
    assert len(read(path)[0]["text"]) == 200_000


def test_a_column_that_is_not_read_may_be_odd(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"text": ["x", "y"], "label": ["a", "b"], "odd": pa.array([1 << 62, 2], pa.duration("s"))})
    pq.write_table(table, path)
    assert [row["text"] for row in read(path)] == ["x", "y"]
