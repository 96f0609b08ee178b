"""Plain text becomes documents, wherever it lies and however it is compressed."""

import gzip
import lzma
from pathlib import Path

import pytest

from pipelines.core.errors import InputError
from pipelines.data.corpora import text

CONTENT = "a one\na two\n\n\nb one\nb two\nb three\n"


def documents(raw: Path, split: str = "train", **options: object) -> list[str]:
    params = text.Params(**options)
    return [row["text"] for row in text.parse(raw, text.task(raw, "", params), split, params)]


def test_a_blank_line_and_a_limit_end_a_document(tmp_path: Path) -> None:
    file = tmp_path / "plain.txt"
    file.write_text(CONTENT)
    assert documents(file) == ["a one\na two", "b one\nb two\nb three"]
    assert documents(file, max_lines=2) == ["a one\na two", "b one\nb two", "b three"]


def test_a_folder_is_read_in_order_with_its_compressed_files(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("plain")
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(CONTENT.encode()))
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress("\ufeffzipped\r\n".encode()))
    (tmp_path / "provenance.json").write_text("{}")
    assert documents(tmp_path) == ["a one\na two", "b one\nb two\nb three", "zipped", "plain"]
    assert documents(tmp_path, files="*.gz") == ["zipped"]


def test_what_is_held_out_is_in_one_split_only(tmp_path: Path) -> None:
    (tmp_path / "many.txt").write_text("\n\n".join(f"document {i}" for i in range(400)))
    train, test = (documents(tmp_path, split, held_out=0.1) for split in ("train", "test"))
    assert 20 < len(test) < 60
    assert sorted(train + test) == sorted(f"document {i}" for i in range(400))
    assert documents(tmp_path, "test", held_out=0.1) == test
    assert documents(tmp_path, "test", held_out=0.1, seed=2) != test


def test_errors_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file '\*\.txt' in this folder"):
        documents(tmp_path, files="*.txt")
    whole = lzma.compress(CONTENT.encode() * 1000)
    (tmp_path / "cut.xz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"cut\.xz: cannot be read to its end"):
        documents(tmp_path)
    (tmp_path / "cut.xz").write_bytes(b"not xz at all")
    with pytest.raises(InputError, match=r"cut\.xz: cannot be read to its end"):
        documents(tmp_path)
    (tmp_path / "cut.xz").unlink()
    (tmp_path / "latin.txt").write_bytes("first\nsecond caf\xe9\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"latin\.txt: line 2: byte 16 is not UTF-8"):
        documents(tmp_path)
