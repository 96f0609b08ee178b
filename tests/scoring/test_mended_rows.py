"""Mended rows: values that fit their columns, and columns that were not mended from the job's input."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.core.errors import InputError
from pipelines.scoring import audit, job, replay
from pipelines.scoring.mended_values import fitted

ALL = job.Options(max_bad="100%", longest=10)


def replayed(target: Path, source: str, row: int, **values: Any) -> list[dict[str, Any]]:
    """Replay one mended row; returns all rows of the last file that replays of its partition wrote."""
    mended = target.with_name("mended.jsonl")
    mended.write_text(json.dumps({"source": source, "row": row, "values": values}), encoding="utf-8")
    assert replay.run(mended, target, "tiny").scored == 1
    assert audit.audit(target).findings == []
    last = max(target.glob(f"{source.removesuffix('.parquet')}.replayed-*.parquet"))
    rows: list[dict[str, Any]] = pq.read_table(last).to_pylist()
    return rows


@pytest.mark.slow
def test_columns_that_were_not_mended_are_those_of_the_input(source: Path, target: Path) -> None:
    table = {
        "text": pa.array([b"ok", b"\xff", None, b"too long"]).cast(pa.binary_view()).view(pa.string_view()),
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "at": pa.array([1, 2, 3, 4], pa.timestamp("ns", "Asia/Tokyo")),
        "day": pa.array(["mo", "tu", "mo", None]).dictionary_encode(),
        "parts": pa.array([[], None, ["b"], ["c"]], pa.list_(pa.string_view())),
        "note": pa.array([b"a", b"\xff", b"c", b"d"]).cast(pa.binary_view()).view(pa.string_view()),
    }
    pq.write_table(pa.table(table), source / "a.parquet")
    (source / "b.csv").write_text("text,id,x\nmuch too long,1,y\nonly\n", encoding="utf-8")
    (source / "c.jsonl").write_text('{"id": 1, "x": {"z": 2}}\n{"text": "犬", "id": 2.5}\n{', encoding="utf-8")
    job.run(source, target, "tiny", "champion", ALL)
    rows = pq.read_table(source / "a.parquet", columns=["id", "at", "day", "parts"]).to_pylist()

    (row,) = replayed(target, "a.parquet", 2, text="映画")
    assert {name: row[name] for name in ("text", "note", *rows[2])} == {"text": "映画", "note": "c", **rows[2]}
    with pytest.raises(
        InputError, match=r"row 1 of a.parquet: `values` has no column 'note', and its row there cannot"
    ):
        replayed(target, "a.parquet", 1, text="映画")
    (row,) = replayed(target, "a.parquet", 1, text="映画", note=None, id=9)
    assert {name: row[name] for name in ("note", *rows[1])} == {"note": None, **rows[1], "id": 9}
    (row,) = replayed(target, "b.csv", 0, text="映画")
    assert (row["id"], row["x"]) == ("1", "y")
    with pytest.raises(InputError, match=r"row 1 of b.csv: `values` has no column 'id', and its row there cannot be"):
        replayed(target, "b.csv", 1, text="映画")
    (row,) = replayed(target, "c.jsonl", 0, text="映画")
    assert (row["id"], row["x"]) == (1.0, '{"z": 2}')
    (source / "b.csv").write_text("text,id,x\n,2,y\nonly\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"row 1 of b.csv: .* 'id', and the file changed since the job began; write"):
        replayed(target, "b.csv", 1, text="映画", x="y")
    (source / "b.csv").unlink()
    (row,) = replayed(target, "b.csv", 1, text="映画", x="y", id=None)
    assert (row["id"], row["x"]) == (None, "y")


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("2026-01-01T09:00:00+09:00", pa.timestamp("us", "UTC"), "2026-01-01 00:00:00+00:00"),
        ("2026-01-01 09:00:00", pa.timestamp("ns"), "2026-01-01 09:00:00"),
        ("2026-01-01", pa.date32(), "2026-01-01"),
        ("09:30", pa.time32("s"), "09:30:00"),
        ("3.25", pa.decimal128(5, 2), "3.25"),
        (3.25, pa.decimal128(5, 2), "3.25"),
        ([{"a": "3"}], pa.list_(pa.struct([("a", pa.decimal128(3, 0))])), "[{'a': Decimal('3')}]"),
        ({"k": 2}, pa.map_(pa.string(), pa.int64()), "[('k', 2)]"),
        ("mo", pa.dictionary(pa.int8(), pa.string()), "mo"),
        (2.0, pa.int64(), "2"),
    ],
)
def test_a_value_is_read_as_its_column_takes_it(value: Any, kind: pa.DataType, expected: str) -> None:
    assert str(pa.array([fitted(value, kind)], kind)[0].as_py()) == expected


@pytest.mark.parametrize(
    ("value", "kind", "sentence"),
    [
        ("q", pa.list_(pa.string()), "'q' does not fit list<"),
        ([["q"]], pa.list_(pa.large_list(pa.list_(pa.string()))), "'q' does not fit list<"),
        ({"zz": 1}, pa.struct([("a", pa.int64())]), "no key 'zz'; there are: a"),
        ([2.5], pa.list_(pa.int64()), "2.5 does not fit int64"),
        (2.5, pa.dictionary(pa.int8(), pa.int64()), "2.5 does not fit int64"),
        ("2026-01-01T00:00:00", pa.timestamp("us", "UTC"), "expected a zone offset"),
        ("soon", pa.date32(), "'soon'"),
        ("09:30:00.5", pa.time32("s"), "09:30:00.5"),
        ("3.25", pa.decimal128(5, 1), "data loss"),
    ],
)
def test_a_value_that_would_be_changed_is_refused(value: Any, kind: pa.DataType, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        fitted(value, kind)
