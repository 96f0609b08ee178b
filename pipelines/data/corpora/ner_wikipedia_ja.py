"""ner_wikipedia_ja: named entities of eight kinds in Japanese Wikipedia sentences (Stockmark, 2021)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from pipelines.core import json_file, seeding
from pipelines.core.errors import InputError
from pipelines.core.section import Fraction, Section
from pipelines.core.task import Task
from pipelines.data import declared
from pipelines.data.sources import Source

FILE = "ner.json"
SOURCES = {
    "official": [
        Source(
            FILE,
            url="https://raw.githubusercontent.com/stockmarkteam/ner-wikipedia-dataset/5e525c21/ner.json",
            mirror=f"ner_wikipedia_ja/{FILE}",
            size_bytes=4042700,
            sha256="5796effb85c473aec5b85784545349ed42e408bb0fecdb78f82bc107d53edbe3",
            licence="CC BY-SA 3.0",
        )
    ]
}
LABELS = ("人名", "法人名", "政治的組織名", "その他の組織名", "地名", "施設名", "製品名", "イベント名")
TASKS = {
    "entities": Task("entities", "tagging", LABELS, "f1", ("train", "dev", "test"), "ja", units="characters"),
}


class Params(Section):
    """The shares of dev and test. The file has no splits; they are drawn with the seed."""

    dev: Fraction = 0.1
    test: Fraction = 0.1
    seed: int = Field(1, ge=0)


task = declared.chooser(TASKS)


def parse(raw: Path, task: Task, split: str, params: Params) -> Iterator[dict[str, Any]]:
    """Sentences of one split, in the file's order. A row's id is its position, since the file's ids are of articles."""
    path = raw / FILE
    records = json_file.read(path)
    if not isinstance(records, list):
        raise InputError(f"{path}: a list of sentences is expected")
    draw = seeding.generator(params.seed, "ner_wikipedia_ja")
    for number, record in enumerate(records):
        point = draw.random()
        place = "test" if point < params.test else "dev" if point < params.test + params.dev else "train"
        if place == split:
            yield _row(path, number, record)


def _row(path: Path, number: int, record: Any) -> dict[str, Any]:
    at = f"[{number}]"
    if not isinstance(record, dict):
        raise InputError(f"{path}: {at}: an object is expected")
    text, entities = (declared.column(path, at, record, name) for name in ("text", "entities"))
    if not isinstance(text, str) or not isinstance(entities, list):
        raise InputError(f"{path}: {at}: text must be a string, and entities a list")
    spans = []
    for entity in entities:
        match entity:
            case {"span": [int(start), int(end)], "name": str(name)} if text[start:end] == name:
                pass
            case _:
                raise InputError(f"{path}: {at}: {str(entity)[:80]} is not in the text at its span")
        if entity.get("type") not in LABELS:
            raise InputError(f"{path}: {at}: the label {entity.get('type')!r} is not one of {', '.join(LABELS)}")
        spans.append({"start": start, "end": end, "label": entity["type"]})
    return {"id": str(number), "text": text, "entities": spans}


def verify(raw: Path, edition: str) -> None:
    """Check nothing: only the digest of the file is declared, and fetching checks it."""
