"""Snapshots of rows that lie elsewhere, in S3 or in a database: copied to files of this machine, which are then read.

A copy is the corpus: training reads it, DVC and git keep it, and nothing is asked elsewhere until a person asks anew.
"""

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from pipelines.core import paths
from pipelines.core.errors import FindingsError, InputError, UsageError, choices, one_line
from pipelines.data import file_form, s3_files, shards
from pipelines.data.database_rows import SCHEMES, Database

S3 = "s3"
WEB = ("http", "https", "ftp")


@dataclass(frozen=True)
class Snapshot:
    """Files of rows on this machine.

    Attributes:
        files: as `inspection.inspect` takes them.
        origin: the place from which they are copied, without credentials; "" if they lie on this machine.
        query: the query to a database, on one line.
        place: the file or the folder of the copy; None if they lie on this machine.
    """

    files: list[Path]
    origin: str = ""
    query: str = ""
    place: Path | None = None

    def __str__(self) -> str:
        """The origin, and the query where there is one."""
        return f"{self.origin}: {self.query}" if self.query else self.origin

    def shown(self, text: str) -> str:
        """A message with the origin in place of the copy's path."""
        return text.replace(str(self.place), self.origin) if self.place else text


def is_remote(word: str) -> bool:
    """Return whether a word is the address of rows that lie elsewhere."""
    return "://" in word


@contextmanager
def beside(words: Sequence[str], query: str, folder: Path, name: str) -> Iterator[Snapshot]:
    """Yield files by their names, or a copy of those elsewhere: `folder/NAME` with the suffix of their format.

    A copy is removed if the block fails. Raises UsageError if it is there already.
    """
    with _copied(words, query, name, folder) as copy:
        if not copy.place:
            yield copy
            return
        place = folder / copy.place.name
        if place.exists():
            raise UsageError(f"{place}: it is there already; give another name, or bring new rows by `bertline add`")
        copy.place.rename(place)
        files = [place / file.relative_to(copy.place) for file in copy.files]
        try:
            with _naming(lambda text: re.sub(f"^{re.escape(str(place))}(?=[:/])", lambda _: copy.origin, text)):
                yield Snapshot(files, copy.origin, copy.query, place)
        except BaseException:
            if place.is_dir():
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)
            raise


@contextmanager
def table(word: str, query: str) -> Iterator[Snapshot]:
    """Yield a table by its name, or a copy of one elsewhere, which is removed at the end of the block."""
    with _copied([word], query, "", None) as copy, _naming(copy.shown):
        yield copy


@contextmanager
def _copied(words: Sequence[str], query: str, name: str, folder: Path | None) -> Iterator[Snapshot]:
    """Yield files by their names, or a copy of those elsewhere in a new folder in `folder`: without `name` a table."""
    kinds = {_kind(word) for word in words}
    if query and not kinds <= {*SCHEMES}:
        raise UsageError("--query: it chooses rows of a database, and a file has none; leave it out")
    if kinds == {""}:
        with _of_this_machine([Path(word) for word in words], name, folder) as snapshot:
            yield snapshot
        return
    if len(kinds) > 1 or (S3 not in kinds and len(words) > 1):
        raise UsageError(f"{len(words)} places of rows; name files of this machine, files in S3, or one database")
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".bertline-", dir=folder) as temporary:
        aside = Path(temporary)
        if kinds == {S3}:
            yield _of_s3(words, aside, name)
        else:
            yield _of_database(words[0], query, aside / f"{name or 'rows'}.jsonl")


@contextmanager
def _of_this_machine(files: list[Path], name: str, folder: Path | None) -> Iterator[Snapshot]:
    """Yield files by their names. Of one folder that holds tables: these, a file a split, or a copy joined from them.

    Without a place for the copy, `folder`, no folder is opened.
    """
    inner = _tables_in(files[0]) if folder and len(files) == 1 else []
    splits = {file_form.split_of(file) for file in inner}
    if not folder or len(inner) < 2 or ("" not in splits and len(splits) == len(inner)):
        yield Snapshot(inner or files)
        return
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".bertline-", dir=folder) as aside:
        parts = Path(aside, "parts")
        parts.mkdir()
        copies = [Path(shutil.copyfile(file, parts / file.name)) for file in inner]
        with _naming(lambda text: text.replace(str(parts), str(files[0]))):
            copy = _copy_of(copies, parts, Path(aside, name), str(files[0]))
        yield copy


def _tables_in(folder: Path) -> list[Path]:
    """The files of a folder; [] if one of them is no table, or a folder."""
    inner = sorted(file for file in folder.iterdir() if not paths.is_hidden(file.name)) if folder.is_dir() else []
    forms = (*file_form.TABLES, *file_form.CONLL)
    return inner if all(file.is_file() and file.suffix.lower().lstrip(".") in forms for file in inner) else []


def _kind(word: str) -> str:
    """The kind of a place; "" for this machine. Raises UsageError for one that no module reads.

    The message leaves the address out, which may hold a password.
    """
    scheme = word.partition("://")[0] if is_remote(word) else ""
    kind = scheme.partition("+")[0]
    if kind in WEB:
        raise UsageError(f"{scheme}: an address; fetch the file first, for example by `dvc import-url`")
    if scheme and kind not in (S3, *SCHEMES):
        raise UsageError(choices("kind of address", kind, (S3, *SCHEMES)))
    return kind


def _of_database(address: str, query: str, place: Path) -> Snapshot:
    database = Database(address)
    if not query.strip():
        raise UsageError(f'{database}: which rows? write --query "SELECT ..."')
    database.write(query, place)
    return Snapshot([place], str(database), one_line(query), place)


def _of_s3(words: Sequence[str], aside: Path, name: str) -> Snapshot:
    files = [file for word in words for file in s3_files.listed(word)]
    if len({file.name for file in files}) < len(files):
        raise UsageError(f"{words[0]}: two of the files have the name {files[0].name}; name a folder that holds them")
    folder, parts = files[0].address.removesuffix(f"/{files[0].name}"), aside / "parts"
    origin = words[0].rstrip("/") if len(words) == 1 else folder
    with _naming(lambda text: text.replace(str(parts), folder)):
        return _copy_of(s3_files.fetch(files, parts), parts, aside / (name or "rows"), origin, bool(name))


def _copy_of(files: Sequence[Path], parts: Path, place: Path, origin: str, divided: bool = True) -> Snapshot:
    """The copy that the files in `parts` become."""
    place = _assembled(files, parts, place, divided)
    inner = sorted(place.iterdir()) if place.is_dir() else []
    tables = inner if all(file.is_file() for file in inner) else []
    return Snapshot(tables or [place], origin, "", place)


def _assembled(files: Sequence[Path], parts: Path, place: Path, divided: bool) -> Path:
    """Make files in `parts` one corpus: a folder of labels, a table, or if `divided` a folder with a table a split."""
    suffix = shards.suffix(files)
    if suffix == ".txt" and all(file.parent.parent == parts for file in files):
        return parts.rename(place)
    splits: dict[str, list[Path]] = {}
    for file in files:
        splits.setdefault(file_form.split_of(file) if divided else "", []).append(file)
    if len(splits) == 1:
        place = place.with_name(f"{place.name}{suffix}")
        shards.join(files, place)
        return place
    if "" in splits:
        raise InputError(f"{splits[''][0]}: its name does not say which split it is, as other names do")
    place.mkdir()
    for split, shares in splits.items():
        shards.join(shares, place / f"{split}{suffix}")
    return place


@contextmanager
def _naming(renamed: Callable[[str], str]) -> Iterator[None]:
    """Rename what the errors of the block name, such as a copy that a person does not know."""
    try:
        yield
    except InputError as error:
        if isinstance(error, FindingsError):
            error.findings = [renamed(finding) for finding in error.findings]
        error.args = (renamed(str(error)),)
        raise
