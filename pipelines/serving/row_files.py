"""A folder of Parquet files that a service adds rows to; the oldest files are deleted."""

import os
import time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.core import secret_file

TIME = "%Y%m%dT%H%M%S"  # of writing, in UTC; a file's name begins with it
STALE_SECONDS = 3600.0  # a partial file this old belongs to a process that was killed


class RowFiles:
    """A folder of Parquet files of one schema. Each is complete: it gets its name once it is written."""

    def __init__(
        self, folder: Path, schema: pa.Schema, most_files: int, most_bytes: int = 0, days: float = 0.0
    ) -> None:
        """Files beyond `most_files`, beyond `most_bytes` in all, and older than `days` are deleted; 0 sets no limit."""
        self.folder, self.schema = folder, schema
        self.most_files, self.most_bytes, self.days = most_files, most_bytes, days

    def write(self, rows: list[dict[str, Any]]) -> None:
        """Write a file, and delete the oldest ones. Raises OSError, for example if the disk is full."""
        name = f"{datetime.now(UTC):{TIME}}-{uuid.uuid4().hex[:8]}.parquet"
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # rows may have texts
        partial = self.folder / f".{name}.{os.getpid()}"
        try:
            with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, secret_file.OWNER_ONLY), "wb") as file:
                pq.write_table(pa.Table.from_pylist(rows, self.schema), file)
            partial.rename(self.folder / name)
        finally:
            partial.unlink(missing_ok=True)
            self.prune()  # on a full disk too, where it makes room

    def prune(self) -> None:
        """Delete the files that are too many or too old, and those that a killed process left."""
        files, total = sorted(self.folder.glob("*.parquet"), reverse=True), 0  # the newest first
        oldest = f"{datetime.now(UTC) - timedelta(days=self.days):{TIME}}" if self.days else ""
        for number, file in enumerate(files):
            try:
                total += file.stat().st_size
            except FileNotFoundError:  # another process has deleted it
                continue
            if number >= self.most_files or file.name < oldest or (self.most_bytes and total > self.most_bytes):
                file.unlink(missing_ok=True)
        for partial in self.folder.glob(".*.parquet.*"):
            try:
                if partial.stat().st_mtime < time.time() - STALE_SECONDS:
                    partial.unlink()
            except FileNotFoundError:  # as above
                continue
