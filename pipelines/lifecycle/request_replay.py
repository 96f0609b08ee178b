"""Requests that a service has stored, answered by the challenger and by the champion: what a promotion would change."""

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.core.errors import InputError, one_line
from pipelines.core.progress import say
from pipelines.core.schema import INPUTS
from pipelines.evaluation import significance
from pipelines.evaluation.gates import Replay
from pipelines.inference.predictor import Predictor
from pipelines.serving.disagreements import differs
from pipelines.serving.request_store import FOLDER, SCHEMA
from pipelines.tracking import registry

MOST_ROWS = 20_000  # different rows, the newest first
TOGETHER = 256  # rows that are predicted at once
READ = ["time", "model", "kind", "digest", "row"]


@dataclass
class Requests:
    """The stored rows of a model.

    Attributes:
        rows: each row as JSON, and how often it was sent.
        without_text: the number of answers whose rows were stored as digests alone.
        other_kind: of rows of another kind than the challenger takes.
        older: of rows beyond MOST_ROWS.
    """

    rows: Counter[str] = field(default_factory=Counter)
    without_text: int = 0
    other_kind: int = 0
    older: int = 0


def compare(challenger: registry.Version, champion: registry.Version, days: int, tolerance: float) -> Replay:
    """Let both versions answer the stored requests of the last days, as the batch job does.

    Args:
        tolerance: the difference of two numbers that changes no answer (kind regression).
    """
    first, second = (Predictor.load(registry.folder(version)) for version in (champion, challenger))
    if first.task.kind != second.task.kind:
        raise InputError(f"{challenger} is of kind {second.task.kind}, {champion} of {first.task.kind}")
    requests = read(FOLDER, challenger.name, second.task.kind, days)
    return replace(compared(first, second, requests, days, tolerance), against=champion.version)


def read(folder: Path, model: str, kind: str, days: int) -> Requests:
    """The requests of a model in `folder` (request_store.SCHEMA) that are at most so many days old."""
    requests, since = Requests(), datetime.now(UTC) - timedelta(days=days)
    for file in sorted(folder.glob("*.parquet"), reverse=True):  # the newest first
        try:
            table = pq.read_table(file, columns=READ, schema=SCHEMA)
        except FileNotFoundError:  # the service has deleted it just now
            continue
        except (OSError, pa.ArrowException) as error:
            say(f"{file}: left out ({one_line(error)})")
            continue
        table = table.filter(
            (pc.field("model") == model) & (pc.field("time") >= pa.scalar(since, pa.timestamp("ms", "UTC")))
        )
        _count(requests, table, kind)
    return requests


def _count(requests: Requests, table: pa.Table, kind: str) -> None:
    for its_kind, row in zip(table.column("kind").to_pylist(), table.column("row").to_pylist(), strict=True):
        if its_kind != kind:
            requests.other_kind += 1
        elif row is None:
            requests.without_text += 1
        elif row in requests.rows or len(requests.rows) < MOST_ROWS:
            requests.rows[row] += 1
        else:
            requests.older += 1


def compared(champion: Predictor, challenger: Predictor, requests: Requests, days: int, tolerance: float) -> Replay:
    """The answers of two predictors to the same rows."""
    rows, counts = [orjson.loads(row) for row in requests.rows], np.array(list(requests.rows.values()), np.int64)
    changed = np.zeros(len(rows), bool)
    for start in range(0, len(rows), TOGETHER):
        part = _table(rows[start : start + TOGETHER], challenger.task.kind)
        pairs = zip(champion.predict(part).to_pylist(), challenger.predict(part).to_pylist(), strict=True)
        for number, (theirs, ours) in enumerate(pairs, start):
            changed[number] = differs(challenger.task.kind, theirs, ours, tolerance)
    effective = significance.effective_size(counts) if len(rows) else 0.0
    return Replay(
        int(counts.sum()), int(counts[changed].sum()), effective, _sentence(requests, days), tolerance=tolerance
    )


def _table(rows: list[dict[str, Any]], kind: str) -> pa.Table:
    return pa.table({name: [row[name] for row in rows] for name in INPUTS[kind]})


def _sentence(requests: Requests, days: int) -> str:
    within = f"the last {days} days" if days > 1 else "the last day"
    if requests.rows:
        parts = [f"{requests.rows.total():,} requested rows of {within}, {len(requests.rows):,} of them different"]
    else:
        option = "`bertline serve --keep-requests DAYS --keep-texts`"
        parts = [f"no request of {within} can be replayed; {option} stores them"]
    if requests.without_text:
        parts.append(f"{requests.without_text:,} cannot be replayed, as they were stored without their texts")
    if requests.other_kind:
        parts.append(f"{requests.other_kind:,} are of another kind")
    if requests.older:
        parts.append(f"{requests.older:,} older ones beyond {MOST_ROWS:,} different rows are left out")
    return "; ".join(parts)
