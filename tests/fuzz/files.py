"""Change the files of a folder, each by what it holds: the values of JSON, the columns of Parquet, or bytes."""

import json
import random
import shutil
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzz import mutate

REMOVES = True  # whether a file of a folder may be removed


def parquet(content: bytes, rng: random.Random) -> bytes:
    """A Parquet file damaged in its bytes, or with other columns, types or values."""
    if rng.random() < 0.4:
        return mutate.damaged(content, rng)
    try:
        return _other(pq.read_table(BytesIO(content)), rng)
    except Exception:  # Arrow itself refuses this change
        return mutate.damaged(content, rng)


def _other(table: pa.Table, rng: random.Random) -> bytes:
    """A table with other columns, types or values."""
    rows, way = mutate.changed(table.to_pylist(), rng), rng.randrange(5)
    if way == 0:
        table = pa.Table.from_pylist(rows)
    elif way == 1:
        table = pa.Table.from_pylist(rows, schema=table.schema)
    elif way == 2:
        table = table.drop_columns(rng.choice(table.column_names))
    elif way == 3:
        twice = rng.choice(table.column_names)
        table = table.append_column(twice, table.column(rng.randrange(table.num_columns)))
    else:
        at = rng.randrange(table.num_columns)
        odd = rng.choice(
            (pa.binary(), pa.int8(), pa.date32(), pa.duration("ns"), pa.bool_(), pa.float64(), pa.large_string())
        )
        values = pa.nulls(table.num_rows, odd)
        if rng.random() < 0.5:
            values = table.column(at).cast(odd)
        table = table.set_column(at, table.column_names[at], values)
    out = BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def removed(place: Path) -> None:
    """Remove a file or a folder, if there is one."""
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)


def copied(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


def change_one(folder: Path, rng: random.Random, skip: tuple[str, ...] = ()) -> None:
    """Change one file of the folder, or remove it."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and not {*skip} & {*file.parts})
    file = rng.choice(files)
    content = file.read_bytes()
    if rng.random() < 0.05 and REMOVES:
        file.unlink()
    elif file.suffix == ".json" and rng.random() < 0.8:
        file.write_bytes(mutate.as_json(mutate.changed(json.loads(content), rng), rng))
    elif file.suffix == ".parquet":
        file.write_bytes(parquet(content, rng))
    else:
        file.write_bytes(mutate.damaged(content, rng))
