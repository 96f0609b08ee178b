"""swag: choose what happens next from four endings (Zellers et al. 2018)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.core.task import Task
from pipelines.data import declared
from pipelines.data.formats.records import csv_
from pipelines.data.sources import Source

_HOST = "https://raw.githubusercontent.com/rowanz/swagaf/master/data"
_FILES = {"train": "train.csv", "dev": "val.csv", "test": "test.csv"}


def _source(name: str, size_bytes: int, sha256: str) -> Source:
    return Source(
        name, url=f"{_HOST}/{name}", mirror=f"swag/{name}", size_bytes=size_bytes, sha256=sha256, licence="none stated"
    )


SOURCES = {
    "official": [
        _source("train.csv", 28243333, "5748b51126ac255c5a6f26e1ba473b51116d6c822aeb25e63ecba282c9d0e610"),
        _source("val.csv", 7893588, "c0497b2cd7f3e6b7df995524b1853f62285d60d110d659b19545ca80b2903234"),
        _source("test.csv", 7817885, "a689a1a4e892a65ca625c1f0fcf77bcce004b59ad1caeb134ca5ec080a711cb6"),
    ]
}
TASKS = {"swag": Task("swag", "choice", ("0", "1", "2", "3"), "accuracy", ("train", "dev", "test"), "en")}
ROWS = {"train": 73546, "dev": 20006, "test": 20005}


Params, task = declared.Nothing, declared.chooser(TASKS)


def parse(raw: Path, task: Task, split: str, params: declared.Nothing) -> Iterator[dict[str, Any]]:
    """Rows of one split: the first sentence, and four choices: the start of the second with each of its endings."""
    path = raw / _FILES[split]
    for at, record in csv_(path):

        def get(name: str, at: str = at, record: dict[str, Any] = record) -> str:
            return declared.column(path, at, record, name)

        choices = [f"{get('sent2')} {get(f'ending{i}')}" for i in range(4)]
        label = declared.name_of(path, at, get("label"), task.labels) if "label" in record else None
        yield {"id": f"{split}-{record.get('', at)}", "text": get("sent1"), "choices": choices, "label": label}


def verify(raw: Path, edition: str) -> None:
    """Check that every split has as many rows as declared."""
    declared.check_rows(raw, TASKS["swag"], ROWS, parse, Params())
