"""The partitions of a job: every Parquet, CSV and JSONL file of a folder, or one file alone."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pipelines.core.errors import InputError, listed, shown
from pipelines.scoring.job_folders import Folder

FORMS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl"}


@dataclass(frozen=True)
class Partition:
    """A file of rows; `name` is its path below the source, with slashes."""

    name: str
    source: Folder

    @property
    def path(self) -> Path:
        """The path of its bytes, which are there while it is `here`."""
        return self.source.place(self.name)

    @property
    def size_bytes(self) -> int:
        """The size of its file. Raises FileNotFoundError if it is gone."""
        return self.source.size_bytes(self.name)

    def here(self) -> AbstractContextManager[None]:
        """During the block its bytes are at `path`. Raises GoneError if it is gone."""
        return self.source.having(self.name)

    @property
    def form(self) -> str:
        """The format of the file: parquet, csv or jsonl."""
        return FORMS[suffix(self.name)]

    @property
    def output(self) -> str:
        """The path of its scored rows below the target."""
        return self.name if self.name.endswith(".parquet") else f"{self.name}.parquet"


def suffix(name: str) -> str:
    """The suffix of a file's name in small letters, such as .csv."""
    return PurePosixPath(name).suffix.lower()


def among(source: Folder) -> list[Partition]:
    """The partitions of `source`, a folder or a file, sorted by name.

    Names that begin with a dot or `_` are left out, as in Spark and Hive. Raises InputError, with all findings, if
    another file cannot be scored.
    """
    names = source.names()
    if not names:
        raise InputError(f"{source}: no .parquet, .csv or .jsonl file is in this folder")
    return _checked(source, [Partition(name, source) for name in names])


def _checked(source: Folder, partitions: list[Partition]) -> list[Partition]:
    """The same partitions. Raises InputError if one is of no known format or no file, or outputs collide."""
    wrong = []
    outputs: dict[str, str] = {}
    written = {place: one.name for one in partitions for place in (one.output, f"{one.name}.jsonl")}
    for partition in partitions:
        if not partition.name.isprintable():
            wrong.append(f"{shown(partition.name)} has a name that cannot be printed")
        elif suffix(partition.name) not in FORMS:
            wrong.append(f"{partition.name} is not .parquet, .csv or .jsonl")
        elif problem := source.unfit(partition.name):
            wrong.append(f"{partition.name} {problem}")
        elif (first := outputs.setdefault(partition.output, partition.name)) != partition.name:
            wrong.append(f"{first} and {partition.name} would both be scored into {partition.output}")
        elif above := [place.as_posix() for place in PurePosixPath(partition.name).parents if str(place) in written]:
            wrong.append(f"{written[above[0]]} would be scored into a file of the name of the folder {above[0]}")
    if wrong:
        raise InputError(f"{source}: {listed(wrong)}; convert, unpack, move or rename them")
    return partitions
