"""The partitions of a job: every Parquet, CSV and JSONL file of a folder, or one file alone."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipelines.core.errors import InputError, NoFileError, listed, shown

FORMS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl"}


@dataclass(frozen=True)
class Partition:
    """A file of rows; `name` is its path below the source, with slashes."""

    name: str
    path: Path

    @property
    def form(self) -> str:
        """The format of the file: parquet, csv or jsonl."""
        return FORMS[self.path.suffix.lower()]

    @property
    def output(self) -> str:
        """The path of its scored rows below the target."""
        return self.name if self.name.endswith(".parquet") else f"{self.name}.parquet"


def among(source: Path) -> list[Partition]:
    """The partitions of `source`, a folder or a file, sorted by name.

    Names that begin with a dot or `_` are left out, as in Spark and Hive. Raises InputError, with all findings, if
    another file cannot be scored.
    """
    if not source.is_dir():
        if not source.exists():
            raise NoFileError(f"{source}: no such file or folder")
        return _checked(source, [Partition(source.name, source)])
    names = sorted(_files(source))
    if not names:
        raise InputError(f"{source}: no .parquet, .csv or .jsonl file is in this folder")
    return _checked(source, [Partition(name, source / name) for name in names])


def _files(folder: Path) -> Iterator[str]:
    """Every file below a folder, without those whose name, or a folder's name above, begins with a dot or `_`."""

    def fails(error: OSError) -> None:
        raise InputError(f"{error.filename}: this folder cannot be read ({error.strerror})")

    for place, folders, files in os.walk(folder, onerror=fails):
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        if links:
            raise InputError(f"{Path(place) / links[0]}: a link to a folder; name the folder itself, or copy it")
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for name in files:
            if not name.startswith((".", "_")):
                yield (Path(place) / name).relative_to(folder).as_posix()


def _checked(source: Path, partitions: list[Partition]) -> list[Partition]:
    """The same partitions. Raises InputError if one is of no known format, is no file, or shares another's output."""
    wrong = []
    outputs: dict[str, str] = {}
    for partition in partitions:
        if not partition.name.isprintable():
            wrong.append(f"{shown(partition.name)} has a name that cannot be printed")
        elif partition.path.suffix.lower() not in FORMS:
            wrong.append(f"{partition.name} is not .parquet, .csv or .jsonl")
        elif not stat.S_ISREG(os.stat(partition.path).st_mode):
            wrong.append(f"{partition.name} is not a file")
        elif (first := outputs.setdefault(partition.output, partition.name)) != partition.name:
            wrong.append(f"{first} and {partition.name} would both be scored into {partition.output}")
    if wrong:
        raise InputError(f"{source}: {listed(wrong)}; move or rename them")
    return partitions
