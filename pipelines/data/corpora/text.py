"""text: plain text to pretrain on, from a file or a folder; .gz, .xz and .bz2 files need no unpacking."""

import bz2
import gzip
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from pipelines.core import seeding
from pipelines.core.errors import InputError
from pipelines.core.section import Fraction, Section
from pipelines.core.task import Task
from pipelines.data.formats.records import Opener, lines, plain
from pipelines.data.sources import Source

_KYOTO = "CC BY-SA 3.0 (NICT, Japanese-English Bilingual Corpus of Wikipedia's Kyoto Articles 2.01)"


def _open_text(name: str, sha256: str, licence: str) -> Source:
    return Source(name, mirror=f"text/{name}", sha256=sha256, licence=licence)


SOURCES = {
    "ja": [
        _open_text("kyoto_wiki.ja.txt.xz", "1137e4f94303d0cbf27f71f12eece0eec7b6349ef38326308da86a86c111ba7b", _KYOTO),
        _open_text(
            "aozora.ja.txt.xz",
            "6ce90d5bcefd315e52ca594be7ab105044dfeb89bce522f5b9f748f915a02808",
            "public domain in Japan (Aozora Bunko)",
        ),
    ],
    "en": [
        _open_text("kyoto_wiki.en.txt.xz", "2e07b361572f5e078e2bf041336c59c7382c7e6e2eb72a19cfae4763ab296321", _KYOTO),
        _open_text(
            "english_novels.en.txt.xz",
            "1881bfbb060a8d36dd7245c05dfdf006b50d7c5b47a372ca901cef7398715ea4",
            "public domain (novels published by 1930)",
        ),
    ],
}
TASKS: dict[str, Task] = {}  # every text is one task
OPENERS: dict[str, Opener] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}


class Params(Section):
    """The division of lines into documents. A blank line ends a document, and so do `max_lines` lines."""

    files: str = "*"  # which files of a folder, as a glob
    max_lines: int = Field(100, ge=1)
    held_out: Fraction = 0.0  # share of the documents that become the split `test`
    seed: int = Field(1, ge=0)
    language: str = ""


def task(raw: Path, name: str, params: Params) -> Task:
    """A task of text without labels; it has a split `test` if some documents are held out."""
    splits = ("train", "test") if params.held_out else ("train",)
    return Task("text", "text", splits=splits, language=params.language)


def parse(raw: Path, task: Task, split: str, params: Params) -> Iterator[dict[str, Any]]:
    """Documents of one split, in the files' order; the seed draws the held-out ones, in each file separately."""
    for path in _files(raw, params):
        draw = seeding.generator(params.seed, "text", path.name)
        for number, text in enumerate(_documents(path, params.max_lines)):
            held_out = draw.random() < params.held_out
            if held_out == (split == "test"):
                yield {"id": f"{path.name}-{number}", "text": text}


def verify(raw: Path, edition: str) -> None:
    """Check nothing: only the digests of the files are declared, and fetching checks them."""


def _files(raw: Path, params: Params) -> list[Path]:
    if raw.is_file():
        return [raw]
    files = sorted(
        p for p in raw.glob(params.files) if p.is_file() and not p.name.startswith(".") and p.suffix != ".json"
    )
    if not files:
        raise InputError(f"{raw}: no file {params.files!r} in this folder; name the files in prepare's `files`")
    return files


def _documents(path: Path, max_lines: int) -> Iterator[str]:
    """Runs of lines without a blank one, at most `max_lines` each."""
    pending: list[str] = []
    for _, line in lines(path, OPENERS.get(path.suffix, plain)):
        if line.strip():
            pending.append(line)
        if pending and (not line.strip() or len(pending) == max_lines):
            yield "\n".join(pending)
            pending = []
    if pending:
        yield "\n".join(pending)
