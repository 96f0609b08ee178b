"""The form of files of one's own: splits by their names, quoted cells of TSV, white space among tagged characters."""

from pathlib import Path

import pytest

from pipelines.core.errors import InputError
from pipelines.data import file_form, own_tables
from pipelines.data.corpora import custom
from pipelines.data.findings import Findings
from pipelines.data.formats import conll

QUOTED = 'text\tlabel\n"a ""b"""\tx\n"two\nlines"\ty\n'
NATURAL = 'text\tlabel\n"a" b\tx\n"c\ty\nd"\tx\n'


@pytest.mark.parametrize(
    ("name", "split"),
    [
        *(("train", "train"), ("pairs_train", "train"), ("Training-Data", "train"), ("trainset2", "train")),
        *(("test", "test"), ("x.test.2024", "test"), ("dev", "dev"), ("validation", "dev"), ("my_val", "dev")),
        *(("学習データ", "train"), ("検証データ", "dev"), ("開発", "dev"), ("テストデータ", "test"), ("評価", "test")),
        *(("latest", ""), ("contest", ""), ("interval", ""), ("reviews_value", ""), ("constraint", ""), ("device", "")),
    ],
)
def test_the_words_of_a_name_say_its_split(name: str, split: str) -> None:
    assert file_form.split_of(Path(f"{name}.csv")) == split


def test_a_tsv_file_with_quoted_cells_is_csv_with_tabs(tmp_path: Path) -> None:
    file = tmp_path / "train.tsv"
    file.write_text(QUOTED)
    form = file_form.form(file)
    assert form == {"format": "csv", "delimiter": "\t"}
    assert [one.row["text"] for one in rows(file, form)] == ['a "b"', "two\nlines"]
    other = tmp_path / "test.tsv"
    other.write_text("text\tlabel\nc\tx\n")
    assert file_form.of_all([file, other]) == file_form.of_all([other, file]) == form
    other.write_text(NATURAL)
    assert file_form.form(other) == {"format": "tsv"}, "these quotes are characters"
    with pytest.raises(InputError, match="their format is 'csv' and 'tsv'; save both alike"):
        file_form.of_all([file, other])


def rows(file: Path, form: dict[str, str]) -> list[own_tables.Read]:
    findings = Findings()
    read = list(custom.read(file, "train", custom.Params(**form), findings))  # type: ignore[arg-type]
    findings.require_none()
    return read


def test_a_wide_space_may_be_a_tagged_character(tmp_path: Path) -> None:
    file = tmp_path / "names.conll"
    file.write_text("".join(f"{character}\tO\n" for character in "三好　葵"), encoding="utf-8")
    assert file_form.form(file) == {"format": "conll", "kind": "tagging", "units": "characters"}
    (sentence,) = conll.sentences(file)
    assert conll.row(file, sentence, "0", "")["text"] == "三好　葵"


@pytest.mark.parametrize("between", ["\t", " "])
@pytest.mark.parametrize("end", ["", " ", "\t", " \r"])
def test_tags_are_told_whatever_the_suffix_and_the_spaces_at_line_ends(between: str, end: str, tmp_path: Path) -> None:
    lines = [f'"{between}O', f"Ann{between}B-PER", "", f"left{between}O"]
    for name in ("train.tsv", "train.conll", "train.bio", "train.txt"):
        file = tmp_path / name
        file.write_bytes("".join(f"{line}{end}\n" for line in lines).encode())
        form = file_form.form(file)
        assert form == {"format": "conll", "kind": "tagging"}
        assert [one.row["text"] for one in rows(file, form)] == ['" Ann', "left"]


def test_a_reader_names_the_tag_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "es.conll"
    file.write_text("Ann B-PER\n\nWest B-LOC\nIndies M-LOC\n")
    with pytest.raises(InputError, match=r"es\.conll: line 3: the tag 'M-LOC' is not one of O, B-<label>, I-<label>"):
        rows(file, file_form.form(file))


@pytest.mark.parametrize("scheme", ["BIES", "BILU"])
def test_tags_that_end_an_entity_are_read(scheme: str, tmp_path: Path) -> None:
    begin, inside, end, alone = scheme
    tags = [f"{alone}-A", f"{alone}-A", f"{begin}-A", f"{inside}-A", f"{end}-A", f"{inside}-A", "O"]
    file = tmp_path / "a.txt"
    file.write_text("".join(f"ww\t{tag}\n" for tag in tags))
    (row,) = rows(file, file_form.form(file))
    assert [(one["start"], one["end"]) for one in row.row["entities"]] == [(0, 2), (3, 5), (6, 14), (15, 17)]


def test_comments_before_a_sentence_are_no_words(tmp_path: Path) -> None:
    file = tmp_path / "a.bio"
    file.write_text("# id 1\n# text = vitamin O\nvitamin O\n#1 O\n\n# O\nAnn B-PER\n")
    assert [one.row["text"] for one in rows(file, file_form.form(file))] == ["vitamin #1", "# Ann"]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.csv.gz", b"\x1f\x8b", r"a\.csv\.gz: a compressed file; unpack it"),
        ("a.csv.zip", b"PK", r"a\.csv\.zip: a compressed file; unpack it"),
        ("a.csv", f"text,label\n{'é' * 60},a\nb\0,b\n".encode(), r"a\.csv: line 3: a NUL byte"),
        ("a.csv", b"text,label\rx,a\ry,b\r", r"a\.csv: line 1: not CSV: a line ends by CR alone; save the file"),
        ("a.csv", b'text,label\n"a \\"b\\" c",x\n', r"a\.csv: line 2: not CSV: a quote within quotes is written twice"),
    ],
)
def test_a_file_that_cannot_be_read_names_the_way_out(name: str, content: bytes, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        rows(file, file_form.form(file))


def test_ndjson_is_another_name_of_jsonl(tmp_path: Path) -> None:
    file = tmp_path / "a.ndjson"
    file.write_text('{"text": "x", "label": "a"}\n{"text": "y"}\n')
    assert file_form.form(file) == {"format": "jsonl"}
    assert [one.row["label"] for one in rows(file, {})] == ["a", None]


def test_hidden_files_of_a_folder_are_no_texts_and_suffixes_have_any_case(tmp_path: Path) -> None:
    for name in ("a/1.txt", "a/2.TXT", "a/._1.txt", ".ipynb_checkpoints/1-checkpoint.txt"):
        (tmp_path / "mails" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mails" / name).write_bytes(b"text" if "._" not in name else b"\0\5\x16\7")
    form = file_form.form(tmp_path / "mails")
    assert form == {"format": "folder", "kind": "single"}
    assert [one.row["id"] for one in rows(tmp_path / "mails", form)] == ["a/1", "a/2.TXT"]
    (tmp_path / "mails/a/2.TXT").rename(tmp_path / "mails/a/.2.TXT")
    (tmp_path / "mails/a/1.txt").unlink()
    with pytest.raises(InputError, match="a folder for each label"):
        file_form.form(tmp_path / "mails")


def test_the_encoding_of_a_folder_is_that_of_its_texts_beyond_ascii(tmp_path: Path) -> None:
    texts = ["ascii", "本日の会議は中止です", "plain", "ID 東京 error", "住所", "届いていません"]
    for number, text in enumerate(texts):
        file = tmp_path / "ab"[number % 2] / f"{number}.txt"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(text.encode("cp932"))
    form = file_form.form(tmp_path)
    assert form == {"format": "folder", "kind": "single", "encoding": "cp932"}
    assert sorted(one.row["text"] for one in rows(tmp_path, form)) == sorted(texts)
    (tmp_path / "b/1.txt").write_text(texts[1], encoding="utf-8")
    with pytest.raises(InputError, match=r"its encoding is not that of .*\.txt; save all files as UTF-8"):
        file_form.form(tmp_path)


def test_a_file_is_looked_through_to_its_first_text_beyond_ascii(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"text,label\n" + b"a long plain text,a\n" * 120_000 + "届いていません,b\n".encode("cp932"))
    assert file_form.form(file) == {"format": "csv", "encoding": "cp932"}
