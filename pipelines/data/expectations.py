"""What rows are like, as numbers, and what they were expected to be."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.core import tables
from pipelines.core.errors import InputError
from pipelines.core.params import Expect
from pipelines.core.schema import INPUTS
from pipelines.core.task import Task

SHOWN = 5  # offending row ids in a message


def quality(folder: Path, task: Task) -> dict[str, Any]:
    """Counts, label balance, lengths in characters, duplicates, and rows shared between splits, of rows/<task>."""
    texts = {split: _texts(folder, task, split) for split in task.splits}
    splits = {split: _split(folder, task, split, texts[split]) for split in task.splits}
    shared = {f"{a}, {b}": _shared(texts[a], texts[b]) for i, a in enumerate(task.splits) for b in task.splits[i + 1 :]}
    return {
        "splits": splits,
        "shared_between_splits": {pair: {"rows": len(ids), "ids": ids[:SHOWN]} for pair, ids in shared.items()},
    }


def check(found: dict[str, Any], expect: Expect, where: str) -> None:
    """Raise one sentence, with row ids, for the first expectation that `found` (of `quality`) does not meet."""
    for split, numbers in found["splits"].items():
        if numbers["rows"] < expect.min_rows:
            raise InputError(f"{where}: {split} has {numbers['rows']} rows, min_rows expects {expect.min_rows}")
        if numbers["empty"]["rows"] > expect.max_empty * numbers["rows"]:
            raise InputError(
                f"{where}: {split} has {numbers['empty']['rows']} empty texts, such as {numbers['empty']['ids']}"
            )
        if numbers["duplicates"]["rows"] > expect.max_duplicates * numbers["rows"]:
            raise InputError(
                f"{where}: {split} has {numbers['duplicates']['rows']} duplicate rows, such as {numbers['duplicates']['ids']}"
            )
    for pair, leak in found["shared_between_splits"].items():
        if expect.no_leakage and leak["rows"]:
            raise InputError(f"{where}: {leak['rows']} rows stand in both of {pair}, such as {leak['ids']}")


def _texts(folder: Path, task: Task, split: str) -> dict[str, list[str]]:
    """Text to the ids of the rows that have it."""
    found: dict[str, list[str]] = {}
    for batch in tables.read_batches(folder / f"{split}.parquet", ["id", *INPUTS[task.kind]]):
        columns = [batch.column(name).to_pylist() for name in INPUTS[task.kind]]
        for row_id, *parts in zip(batch.column("id").to_pylist(), *columns, strict=True):
            found.setdefault("\t".join(parts), []).append(row_id)
    return found


def _split(folder: Path, task: Task, split: str, texts: dict[str, list[str]]) -> dict[str, Any]:
    table = tables.read(folder / f"{split}.parquet")
    repeated = sorted(row_id for ids in texts.values() for row_id in ids[1:])
    empty = sorted(row_id for text, ids in texts.items() if not text.strip() for row_id in ids)
    numbers: dict[str, Any] = {
        "rows": table.num_rows,
        "characters": _quantiles(table.column("text")),
        "empty": {"rows": len(empty), "ids": empty[:SHOWN]},
        "duplicates": {"rows": len(repeated), "ids": repeated[:SHOWN]},
    }
    if "label" in table.column_names:
        counts = Counter(table.column("label").to_pylist())
        numbers["labels"] = {str(label): counts[label] for label in (*task.labels, None) if counts[label]}
    return numbers


def _quantiles(column: pa.ChunkedArray) -> dict[str, int]:
    if not len(column):
        return {}
    points = pc.quantile(pc.utf8_length(column), q=[0, 0.5, 0.9, 1], interpolation="lower").to_pylist()
    return dict(zip(("min", "median", "p90", "max"), points, strict=True))


def _shared(a: dict[str, list[str]], b: dict[str, list[str]]) -> list[str]:
    return sorted(row_id for text in a.keys() & b.keys() for row_id in b[text])
