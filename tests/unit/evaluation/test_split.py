"""A split is read, predicted and scored in parts, and nothing of it is lost or out of place."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.core import schema, tables
from pipelines.core.errors import InputError
from pipelines.core.task import Task
from pipelines.evaluation import split as splits
from pipelines.evaluation.prediction_scores import labelled, score
from pipelines.evaluation.split import Split

TASK = Task("t", "single", ("short", "long"), "accuracy")


def label(text: str) -> str:
    return "long" if len(text) > 4 else "short"


def rows(count: int) -> pa.Table:
    """Of which every tenth is of the other label."""
    texts = ["x" * (i % 9) for i in range(count)]
    other = {"long": "short", "short": "long"}
    labels = [label(text) if i % 10 else other[label(text)] for i, text in enumerate(texts)]
    columns = {"id": [f"r{i}" for i in range(count)], "text": texts, "label": labels}
    return pa.table(columns).cast(schema.ROWS["single"])


def predict(part: pa.RecordBatch) -> pa.Table:
    labels = [label(text) for text in part.column("text").to_pylist()]
    scores = [[0.75, 0.25] if predicted == "short" else [0.25, 0.75] for predicted in labels]
    columns: dict[str, Any] = {
        "id": part.column("id"),
        "label": labels,
        "score": [0.75] * len(labels),
        "scores": scores,
    }
    return pa.table(columns).cast(schema.PREDICTIONS["single"])


def split(table: pa.Table, task: Task = TASK) -> Split:
    tables.write(Path("rows/test.parquet"), table.to_batches(), table.schema)
    return Split(Path("rows/test.parquet"), task)


def test_parts_are_the_rows_in_order(checkout: Path) -> None:
    table = rows(3 * splits.PART_ROWS + 5)
    whole_split = split(table)
    parts = list(whole_split.parts())
    assert len(parts) == 4
    assert max(part.num_rows for part in parts) == splits.PART_ROWS
    assert pa.Table.from_batches(parts).equals(table.select(["id", "text"]))
    assert whole_split.rows == table.num_rows


def test_long_rows_make_short_parts(checkout: Path) -> None:
    row = {"question": "q", "context": "x" * 30_000, "answers": []}
    table = pa.Table.from_pylist([{"id": str(i), **row} for i in range(200)], schema=schema.ROWS["span"])
    parts = list(split(table, Task("t", "span", (), "f1")).parts())
    assert sum(part.num_rows for part in parts) == 200
    assert max(part.num_rows for part in parts) <= splits.PART_BYTES // 30_000 + 1


def test_predictions_are_written_as_they_come_and_scored_as_a_whole(checkout: Path) -> None:
    table = rows(5000)
    whole_split, part_sizes = split(table), []

    def watched(part: pa.RecordBatch) -> pa.Table:
        part_sizes.append(part.num_rows)
        return predict(part)

    (whole,) = table.select(["id", "text"]).combine_chunks().to_batches()
    expected = predict(whole)
    assert whole_split.write(watched, Path("out")) > 0
    assert len(part_sizes) == 3
    assert pq.read_table("out/test.parquet").equals(expected)
    assert whole_split.read(Path("out")).equals(expected.drop_columns("scores"))
    scores = score(table, expected, TASK)
    assert scores["metrics"]["accuracy"] == 0.9
    assert whole_split.score(predict) == scores == score(whole_split.targets(), whole_split.read(Path("out")), TASK)


def test_a_sample_is_spread_over_all_parts(checkout: Path) -> None:
    table = rows(5000)
    sample = split(table).spread(50)
    picks = np.linspace(0, 4999, 50).astype(int)
    assert sample.equals(table.select(["id", "text"]).take(picks))
    assert {0, 4999} < set(picks.tolist())
    assert split(rows(3)).spread(50).num_rows == 3


def test_a_split_without_labels_has_only_ids_to_score(checkout: Path) -> None:
    assert split(rows(9).drop_columns("label")).targets().column_names == ["id"]
    assert not labelled(split(rows(9).drop_columns("label")).targets(), TASK)
    assert labelled(split(rows(9)).targets(), TASK)


def test_a_split_without_rows_fails_in_one_sentence(checkout: Path) -> None:
    empty = split(rows(0))
    with pytest.raises(InputError, match=r"rows/test\.parquet: it has no rows"):
        empty.write(predict, Path("out"))
    with pytest.raises(InputError, match=r"rows/test\.parquet: it has no rows"):
        empty.score(predict)
    with pytest.raises(InputError, match=r"rows/gone\.parquet: no such file"):
        Split(Path("rows/gone.parquet"), TASK).score(predict)
