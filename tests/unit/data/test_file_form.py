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
    file.write_text("Ann B-PER\n\nWest B-LOC\nIndies E-LOC\n")
    with pytest.raises(InputError, match=r"es\.conll: line 3: the tag 'E-LOC' is not one of O, B-<label>, I-<label>"):
        rows(file, file_form.form(file))


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
