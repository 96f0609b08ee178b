"""Shards: files of one format whose rows are one table, written into one file."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from pipelines.core import tables
from pipelines.core.errors import InputError, UnreadableError, UsageError
from pipelines.data.formats import encodings

HEADED = ("csv", "tsv")  # their first line names the columns
JOINED = (*HEADED, "jsonl", "parquet")


def suffix(files: Sequence[Path]) -> str:
    """The suffix that all files have, in small letters. Raises UsageError if they have several."""
    suffixes = sorted({file.suffix.lower() for file in files})
    if len(suffixes) > 1:
        raise UsageError(f"{files[0].parent}: files of several formats ({', '.join(suffixes)}); name those of one")
    return suffixes[0]


def join(files: Sequence[Path], target: Path) -> None:
    """Write the rows of files of one format to `target`, in the order of the files; a single file is moved as it is.

    Raises UsageError for a format whose files cannot be joined, InputError for files that differ in encoding or
    columns.
    """
    form = suffix(files).lstrip(".")
    if len(files) == 1:
        files[0].rename(target)
    elif form == "parquet":
        _join_parquet(files, target)
    elif form in JOINED:
        _join_lines(files, target, form in HEADED)
    else:
        raise UsageError(f"{files[0].parent}: {len(files)} files of the form {form or 'none'}; name one of them")


def _join_parquet(files: Sequence[Path], target: Path) -> None:
    schema = tables.open_parquet(files[0]).schema_arrow
    with pq.ParquetWriter(target, schema) as writer:
        for file in files:
            if not tables.open_parquet(file).schema_arrow.equals(schema):
                raise InputError(f"{file}: its columns are not those of {files[0].name}; write them alike")
            for batch in tables.read_batches(file):
                writer.write_batch(batch)


def _join_lines(files: Sequence[Path], target: Path, headed: bool) -> None:
    encoding, header = encodings.shared(files), ""
    with target.open("w", encoding=encoding, newline="") as out:
        for number, file in enumerate(files):
            lines = _lines(file, encoding)
            first = next(lines, "") if headed else ""
            if number == 0:
                header = first
                out.write(header)
            elif first.rstrip("\r\n") != header.rstrip("\r\n"):
                raise InputError(f"{file}: its first line is not that of {files[0].name}, which names the columns")
            out.writelines(lines)


def _lines(file: Path, encoding: str) -> Iterator[str]:
    """The lines of a file with their ends, without a byte order mark; the last one has an end too."""
    with file.open(encoding=encoding, newline="") as source:
        try:
            for number, line in enumerate(source):
                text = line.removeprefix("\ufeff") if number == 0 else line
                yield text if text.endswith(("\n", "\r")) else f"{text}\n"
        except UnicodeError:
            raise UnreadableError(file, f"{file}: a text in it", encoding) from None
