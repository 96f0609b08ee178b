"""Rows that two versions answer differently, in Parquet files; without their texts unless these are requested."""

import asyncio
import hashlib
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from pipelines.core.errors import one_line
from pipelines.core.progress import say
from pipelines.serving.row_files import RowFiles
from pipelines.tracking.registry import Version

SCHEMA = pa.schema(
    {
        "time": pa.timestamp("ms", "UTC"),
        "model": pa.string(),
        "version": pa.int64(),  # that answered
        "other": pa.int64(),  # that read along
        "digest": pa.string(),  # sha256 of the row as JSON with sorted keys
        "row": pa.string(),  # that JSON, if texts are stored
        "answer": pa.string(),  # JSON
        "other_answer": pa.string(),
    }
)
PART_ROWS, PART_SECONDS = 1000, 10.0  # a file is written when so many rows wait, or one has waited so long
MOST_FILES = 1000  # of the folder; the oldest are deleted
QUOTES = ("answer", "best")  # fields of an answer that quote its row


def decision(kind: str, prediction: dict[str, Any]) -> Any:
    """The part of an answer that a caller acts on; two answers with the same one agree."""
    if kind == "span":
        return prediction["answer"], prediction["start"] if prediction["answer"] else -1  # no answer has no place
    if kind == "tagging":
        return [(entity["start"], entity["end"], entity["label"]) for entity in prediction["entities"]]
    if kind == "regression":
        return round(prediction["value"], 1)
    return prediction["label"]


def differs(kind: str, first: dict[str, Any], second: dict[str, Any], tolerance: float) -> bool:
    """Return whether a caller would act otherwise on the second answer; numbers differ by more than `tolerance`."""
    if kind == "regression":
        return abs(first["value"] - second["value"]) > tolerance
    return bool(decision(kind, first) != decision(kind, second))


def digest(row: dict[str, Any]) -> str:
    """The sha256 of a row, whatever the order of its columns."""
    return hashlib.sha256(orjson.dumps(row, option=orjson.OPT_SORT_KEYS)).hexdigest()


class Disagreements:
    """A folder of Parquet files (SCHEMA). Each is complete: it gets its name once it is written."""

    def __init__(self, folder: Path, texts: bool = False) -> None:
        self.files, self.texts = RowFiles(folder, SCHEMA, MOST_FILES), texts
        self._rows: list[dict[str, Any]] = []
        self._last = time.monotonic()

    def add(
        self, version: Version, other: Version, row: dict[str, Any], answer: dict[str, Any], others: dict[str, Any]
    ) -> None:
        """Note one row, the answer to it, and the answer of the other version."""
        if not self._rows:
            self._last = time.monotonic()
        text = orjson.dumps(row, option=orjson.OPT_SORT_KEYS).decode() if self.texts else None
        self._rows.append(
            {
                "time": datetime.now(UTC),
                "model": version.name,
                "version": version.version,
                "other": other.version,
                "digest": digest(row),
                "row": text,
                "answer": self._shown(answer),
                "other_answer": self._shown(others),
            }
        )

    def _shown(self, answer: dict[str, Any]) -> str:
        left_out = () if self.texts else QUOTES
        return orjson.dumps({name: value for name, value in answer.items() if name not in left_out}).decode()

    async def write_if_due(self) -> None:
        """Write what waits, in a thread, if there is enough of it or it has waited long enough."""
        if len(self._rows) >= PART_ROWS or (self._rows and time.monotonic() > self._last + PART_SECONDS):
            rows, self._rows = self._rows, []
            await asyncio.to_thread(self._write, rows)

    def close(self) -> None:
        """Write what waits."""
        rows, self._rows = self._rows, []
        if rows:
            self._write(rows)

    def _write(self, rows: list[dict[str, Any]]) -> None:
        """Write a file; a failure is no reason to stop answering, so it goes to the log."""
        try:
            self.files.write(rows)
        except OSError as error:
            say(f"{self.files.folder}: {len(rows)} disagreements are lost ({one_line(error)})")
