"""Rows that a service has predicted, with their answers: the requests that a challenger answers before promotion.

A thread writes them, so that no request waits for a disk, and none fails with it.
"""

import threading
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
import pyarrow as pa

from pipelines.core.errors import one_line
from pipelines.core.progress import say
from pipelines.serving.disagreements import QUOTES, digest
from pipelines.serving.row_files import RowFiles

if TYPE_CHECKING:
    from pipelines.serving.served_model import Answered

FOLDER = Path("state/requests")
SCHEMA = pa.schema(
    {
        "time": pa.timestamp("ms", "UTC"),
        "model": pa.string(),  # the registered name
        "version": pa.int64(),
        "version_digest": pa.string(),  # of the files that it was opened from
        "kind": pa.string(),
        "digest": pa.string(),  # sha256 of the row as JSON with sorted keys
        "row": pa.string(),  # that JSON, if texts are stored
        "answer": pa.string(),  # JSON
    }
)
WRITE_SECONDS = 10.0  # the longest time that a row waits for its file
PART_ROWS, MOST_WAITING = 1000, 10_000  # rows that are written at once; rows beyond the second are dropped
MOST_FILES, MOST_BYTES = 20_000, 10**9
PRUNE_SECONDS = 600.0  # between two looks at the age of files, while nothing is written
LEFT_OUT = ("vector",)  # of an answer: it is large, and the row gives it again


class _Predicted(NamedTuple):
    """The rows of one request and their answers."""

    time: datetime
    model: Any  # a ServedModel
    columns: dict[str, list[Any]]
    predictions: list[dict[str, Any]]


class RequestStore:
    """A folder of Parquet files (SCHEMA), and a thread that writes them.

    Attributes:
        rows: by `stored` and `lost`: the disk is full or too slow, or the folder cannot be written.
    """

    def __init__(self, folder: Path, days: float, texts: bool = False, most_bytes: int = MOST_BYTES) -> None:
        """Rows are deleted after `days`, and the oldest ones beyond `most_bytes` in all; `texts` stores them too."""
        self.files, self.texts = RowFiles(folder, SCHEMA, MOST_FILES, most_bytes, days), texts
        self.rows: Counter[str] = Counter()
        self._waiting: list[_Predicted] = []
        self._count = 0  # rows in `_waiting`
        self._failed = False  # the last file could not be written
        self._lock = threading.Lock()
        self._due, self._closed = threading.Event(), False
        self._writer = threading.Thread(target=self._keep_writing, name="requests", daemon=True)
        self._writer.start()

    def add(self, columns: dict[str, list[Any]], answered: "Answered") -> None:
        """Note the rows of a request and their answers. Never waits, never raises an error."""
        predictions = [dict(prediction) for prediction in answered.predictions]  # protocols change theirs
        part = _Predicted(datetime.now(UTC), answered.model, columns, predictions)
        with self._lock:
            if self._count + len(predictions) > MOST_WAITING:
                self.rows["lost"] += len(predictions)
                return
            self._waiting.append(part)
            self._count += len(predictions)
            due = self._count >= PART_ROWS
        if due:
            self._due.set()

    def close(self) -> None:
        """Write what waits, and end the thread."""
        self._closed = True
        self._due.set()
        self._writer.join()

    def _keep_writing(self) -> None:
        idle = PRUNE_SECONDS  # files of an earlier run may be too old
        while not self._closed:
            idle = 0.0 if self._write() else idle + WRITE_SECONDS
            if idle >= PRUNE_SECONDS:
                idle = 0.0
                self._prune()
            self._due.wait(WRITE_SECONDS)
            self._due.clear()
        self._write()

    def _write(self) -> bool:
        """Write what waits; False if nothing does."""
        with self._lock:
            parts, count, self._waiting, self._count = self._waiting, self._count, [], 0
        if not parts:
            return False
        try:
            self.files.write([row for part in parts for row in self._rows(part)])
        except Exception as error:  # of any type: the thread goes on, and the requests were answered
            self.rows["lost"] += count
            if not self._failed:  # one line for a full disk, not one every ten seconds
                say(f"{self.files.folder}: requests are not stored ({one_line(error)}); /metrics counts them")
            self._failed = True
            return True
        self.rows["stored"] += count
        self._failed = False
        return True

    def _prune(self) -> None:
        try:
            self.files.prune()
        except Exception as error:  # of any type, as above
            say(f"{self.files.folder}: old requests are not deleted ({one_line(error)})")

    def _rows(self, part: _Predicted) -> list[dict[str, Any]]:
        left_out = LEFT_OUT if self.texts else (*LEFT_OUT, *QUOTES)
        rows = []
        for number, prediction in enumerate(part.predictions):
            row = {name: values[number] for name, values in part.columns.items()}
            answer = {name: value for name, value in prediction.items() if name not in left_out}
            rows.append(
                {
                    "time": part.time,
                    "model": part.model.version.name,
                    "version": part.model.version.version,
                    "version_digest": part.model.digest,
                    "kind": part.model.task.kind,
                    "digest": digest(row),
                    "row": orjson.dumps(row, option=orjson.OPT_SORT_KEYS).decode() if self.texts else None,
                    "answer": orjson.dumps(answer).decode(),
                }
            )
        return rows


class Stored:
    """An ASGI middleware that names the store in the scope of each request, for the one place that answers."""

    def __init__(self, app: Any, store: RequestStore | None) -> None:
        self.app, self.store = app, store

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self.store:
            scope.setdefault("state", {})["store"] = self.store
        await self.app(scope, receive, send)
