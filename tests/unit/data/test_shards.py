"""Files of one format become one table: in any encoding, with their header once, and never a mixture."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.core.errors import InputError
from pipelines.data import shards
from pipelines.data.formats import encodings
from pipelines.data.formats.records import plain, records

FIRST = 'text,label\r\n"二行の\r\n文",a\r\n'
SECOND = "text,label\r\nかな文字です,b"  # its last line has no end


def written(folder: Path, *contents: bytes, suffix: str = ".csv") -> list[Path]:
    files = [folder / f"{number}{suffix}" for number in range(len(contents))]
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)
    return files


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp932", "euc-jp"])
def test_tables_are_joined_in_their_encoding(encoding: str, tmp_path: Path) -> None:
    third = "text,label\r\n".encode("utf-16" if encoding == "utf-16" else "ascii")  # no row
    files = written(tmp_path, FIRST.encode(encoding), third, SECOND.encode(encoding))
    shards.join(files, tmp_path / "all.csv")
    name = encodings.reads_as(tmp_path / "all.csv")
    assert name == encoding.removesuffix("-sig")
    rows = [row for _, row in records(tmp_path / "all.csv", opener=encodings.opener(name) or plain)]
    assert rows == [{"text": "二行の\n文", "label": "a"}, {"text": "かな文字です", "label": "b"}]


def test_a_single_file_stays_as_it_is(tmp_path: Path) -> None:
    shards.join(written(tmp_path, b"\xff\x00", suffix=".bin"), tmp_path / "one.bin")
    assert (tmp_path / "one.bin").read_bytes() == b"\xff\x00"


@pytest.mark.parametrize(
    ("contents", "suffix", "message"),
    [
        ((FIRST.encode(), SECOND.encode("cp932")), ".csv", r"1.csv: its encoding is not that of .*0.csv"),
        ((SECOND.encode("utf-16"), b"text,label\r\na,b\r\n"), ".csv", "its encoding is utf-16, others are in ASCII"),
        ((b"text,label\na,b\n", b"label,text\na,b\n"), ".csv", "1.csv: its first line is not that of 0.csv"),
        ((b"a,b\n" * 300_000, "a,b\nc,é\n".encode() * 150_000 + b"\xff"), ".csv", "a text in it is not utf-8"),
        ((b"PK", b"PK"), ".xlsx", "2 files of the form xlsx; name one of them"),
        ((b"x", b"x"), "", "2 files of the form none; name one of them"),
    ],
)
def test_files_that_do_not_go_together_are_refused(
    contents: tuple[bytes, ...], suffix: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        shards.join(written(tmp_path, *contents, suffix=suffix), tmp_path / f"all{suffix}")


def test_parquet_of_other_columns_is_refused(tmp_path: Path) -> None:
    files = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    for file, column in zip(files, ("a", "b"), strict=True):
        pq.write_table(pa.table({column: ["x"]}), file)
    with pytest.raises(InputError, match=r"1\.parquet: its columns are not those of 0\.parquet"):
        shards.join(files, tmp_path / "all.parquet")
