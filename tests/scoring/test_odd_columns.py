"""Columns of odd types in a job: a broken text is one bad row however deep it lies; a file of 10,000 columns."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.scoring import answer_replay, audit, job
from pipelines.scoring.job_folders import Folder
from tests.support import tiny

pytestmark = pytest.mark.slow


def broken() -> pa.Array:
    """Three texts, of which the second is no UTF-8."""
    return pa.Array.from_buffers(pa.string(), 3, pa.array([b"ok", b"\xff\xfe", b"ab"], pa.binary()).buffers())


def coded(values: pa.Array | None = None) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int32()), broken() if values is None else values)


ONE_EACH = pa.array([0, 1, 2, 3], pa.int32())
COLUMNS: dict[str, pa.Array] = {
    "dictionary": coded(),
    "struct": pa.StructArray.from_arrays([broken()], ["a"]),
    "struct of a dictionary": pa.StructArray.from_arrays([coded()], ["a"]),
    "list": pa.ListArray.from_arrays(ONE_EACH, broken()),
    "list of a dictionary": pa.ListArray.from_arrays(ONE_EACH, coded()),
    "list of a fixed size": pa.FixedSizeListArray.from_arrays(broken(), 1),
    "map": pa.MapArray.from_arrays(ONE_EACH, broken(), pa.array([1, 2, 3])),
    "list of structs": pa.ListArray.from_arrays(ONE_EACH, pa.StructArray.from_arrays([broken()], ["a"])),
}


def bad_rows(target: Path, name: str) -> list[tuple[int, str]]:
    path = target / "_quarantine" / f"{name}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [(line["row"], line["code"]) for line in map(json.loads, lines)]


def run(source: Path, target: Path) -> job.Outcome:
    outcome = job.run(source, target, "tiny", "champion", job.Options(max_bad="100%"))
    assert audit.audit(target).findings == []
    return outcome


def test_a_broken_text_stops_no_neighbour_however_deep_it_lies(source: Path, target: Path) -> None:
    texts = ["犬", "映画", "試合"]
    for name, column in COLUMNS.items():
        pq.write_table(pa.table({"text": texts, "other": column}), source / f"{name}.parquet")
    pq.write_table(pa.table({"text": coded()}), source / "text.parquet")
    whole = pa.DictionaryArray.from_arrays(pa.array([0, 2, 2], pa.int32()), broken())
    pq.write_table(pa.table({"text": whole}), source / "unused.parquet")
    run(source, target)
    for name in (*COLUMNS, "text"):
        assert bad_rows(target, f"{name}.parquet") == [(1, "not_utf8")], name
        scored = pq.read_table(target / f"{name}.parquet")
        assert scored.column("row_number").to_pylist() == [0, 2]
    assert bad_rows(target, "unused.parquet") == [], "no row has the broken value of the dictionary"
    kept = pq.read_table(target / "list of a dictionary.parquet").column("other")
    assert kept.to_pylist() == [["ok"], ["ab"]]


def test_a_bad_row_stops_no_neighbour_beside_columns_of_views(source: Path, target: Path) -> None:
    """Arrow has no kernel that chooses rows of views."""
    texts = pa.array(["a text of many letters", "b", None, "d"], pa.string_view())
    nested = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), texts)
    others = {"bytes": pa.array([b"x", None, b"y", b"z"], pa.binary_view()), "list": nested}
    pq.write_table(pa.table({"text": texts, **others}), source / "views.parquet")
    text = pa.table({"text": ["a", "b", "c"], "view": pa.array(["x", "y", "z"], pa.string_view()), "other": coded()})
    pq.write_table(text, source / "broken.parquet")
    run(source, target)
    assert bad_rows(target, "views.parquet") == [(2, "null_value")]
    replayed = answer_replay.replay(Folder(target))
    assert (replayed.findings, replayed.rows) == ([], 5)
    assert bad_rows(target, "broken.parquet") == [(1, "not_utf8")]
    scored = pq.read_table(target / "views.parquet")
    assert scored.column("row_number").to_pylist() == [0, 1, 3]
    assert scored.column("text").to_pylist() == ["a text of many letters", "b", "d"]
    assert scored.column("bytes").to_pylist() == [b"x", None, b"z"]
    assert scored.column("list").to_pylist() == [["a text of many letters"], ["b"], ["d"]]
    assert pq.read_table(target / "broken.parquet").column("view").to_pylist() == ["x", "z"]


@pytest.mark.timeout(300)
def test_a_file_of_10_000_columns_is_scored(source: Path, target: Path) -> None:
    columns: dict[str, Any] = {f"c{number}": np.arange(16) for number in range(10_000)}
    pq.write_table(pa.table({"text": tiny.TEXTS, **columns}), source / "a.parquet")
    (source / "b.csv").write_text(f"text,{','.join(columns)}\n犬,{','.join('1' * 10_000)}\n", encoding="utf-8")
    assert run(source, target).summary["scored"] == 17
    names = pq.read_schema(target / "a.parquet").names
    assert (names[:2], len(names)) == (["text", "c0"], 10_008)
