"""squad: questions on Wikipedia paragraphs, 1.1 (Rajpurkar et al. 2016), and 2.0 with unanswerable ones (2018)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.core.task import Task
from pipelines.data import declared
from pipelines.data.formats.squad_json import questions
from pipelines.data.sources import Source

_HOST = "https://rajpurkar.github.io/SQuAD-explorer/dataset"


def _source(name: str, size_bytes: int, sha256: str) -> Source:
    return Source(
        name, url=f"{_HOST}/{name}", mirror=f"squad/{name}", size_bytes=size_bytes, sha256=sha256,
        licence="CC BY-SA 4.0",
    )  # fmt: skip


SOURCES = {
    "1.1": [
        _source("train-v1.1.json", 30288272, "3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955"),
        _source("dev-v1.1.json", 4854279, "95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9"),
    ],
    "2.0": [
        _source("train-v2.0.json", 42123633, "68dcfbb971bd3e96d5b46c7177b16c1a4e7d4bdef19fb204502738552dede002"),
        _source("dev-v2.0.json", 4370528, "80a5225e94905956a6446d296ca1093975c4d3b3260f1d6c8f68bc2ab77182d8"),
    ],
}
TASKS = {
    edition: Task(edition, "span", (), "f1", ("train", "dev"), "en", unanswerable=edition == "2.0")
    for edition in SOURCES
}
ROWS = {"1.1": {"train": 87599, "dev": 10570}, "2.0": {"train": 130319, "dev": 11873}}


Params, task = declared.Nothing, declared.chooser(TASKS)


def parse(raw: Path, task: Task, split: str, params: declared.Nothing) -> Iterator[dict[str, Any]]:
    """Questions of one split."""
    yield from questions(raw / f"{split}-v{task.name}.json")


def verify(raw: Path, edition: str) -> None:
    """Check that every split has as many questions as declared."""
    declared.check_rows(raw, TASKS[edition], ROWS[edition], parse, Params())
