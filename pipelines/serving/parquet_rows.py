"""Parquet in requests, such as `DataFrame.to_parquet()` writes; a file that expands to more than a body is refused.

All sizes are known before a page is expanded: a few bytes of Parquet can stand for gigabytes.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.core import schema
from pipelines.core.errors import InputError
from pipelines.serving import bodies, frames, limits
from pipelines.serving.parquet_pages import pages

FOOTER_BYTES = 200_000  # a footer takes up to 200 times as much in memory
PAGES = 4_000
VALUES = limits.MAX_ROWS * limits.MAX_CHOICES  # of one page
EXPANDED_BYTES = 16 * bodies.MAX_BYTES  # of the values of all pages
TEXT_BYTES = 4 * limits.MAX_IN_ALL  # UTF-8 has at most 4 bytes a character
LIMITED = "a request takes no more, and `bertline score` has no limit"
UNREADABLE = "the body is not a readable Parquet file"


def columns(body: bytes, kind: str) -> frames.Columns:
    """The columns of a Parquet body, without the index of a frame. Raises InputError."""
    try:
        return _columns(body, kind)
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError, TypeError, RecursionError):  # may repeat the body
        raise InputError(UNREADABLE) from None


def _columns(body: bytes, kind: str) -> frames.Columns:
    if len(body) < 12 or body[-4:] != b"PAR1" or int.from_bytes(body[-8:-4], "little") > FOOTER_BYTES:
        raise InputError(f"{UNREADABLE} with a footer of at most {FOOTER_BYTES:,} bytes")
    file = pq.ParquetFile(pa.BufferReader(body), pre_buffer=False)
    stored, inputs = file.schema_arrow, schema.INPUTS[kind]
    names = [name for name in stored.names if name not in _index(stored)]
    frames.require_known(names, inputs)
    frames.require_distinct(names)
    if _rows(file.metadata) == 0:
        return {name: [] for name in names}
    for name in names:
        several = name in frames.lists(kind)
        if not _texts(stored.field(name).type, several):
            raise InputError(f"the column {name!r} does not hold {'lists of text' if several else 'text'}")
    # read as a dictionary, a text that occurs in many rows is in memory once
    shared = _shared(body, file.metadata)
    file = pq.ParquetFile(pa.BufferReader(body), metadata=file.metadata, read_dictionary=shared, pre_buffer=False)
    values: frames.Columns = {name: [] for name in names}
    size = 0
    for group in range(file.num_row_groups):  # Arrow reads lists of a dictionary from one group only
        table = file.read_row_group(group, names, use_threads=False, use_pandas_metadata=False)
        table.validate(full=True)
        size += sum(_text_bytes(chunk) for column in table.columns for chunk in column.chunks)
        if size > TEXT_BYTES:
            raise InputError(f"over {limits.MAX_IN_ALL} characters in all rows; {LIMITED}")
        for name in names:
            values[name] += table.column(name).to_pylist()
    return values


def _rows(metadata: pq.FileMetaData) -> int:
    """The number of rows. Raises InputError if there are too many."""
    rows = max(metadata.num_rows, sum(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)))
    if rows > limits.MAX_ROWS:
        raise InputError(f"over {limits.MAX_ROWS} rows; {LIMITED}")
    return rows


def _shared(body: bytes, metadata: pq.FileMetaData) -> list[str]:
    """The paths of columns with a dictionary. Raises InputError if there are too many pages, values or bytes."""
    shared: set[str] = set()
    count = size = expanded = 0
    for group in (metadata.row_group(number) for number in range(metadata.num_row_groups)):
        for number in range(group.num_columns):
            chunk = group.column(number)
            _check_bytes(size + chunk.total_uncompressed_size)
            start = chunk.data_page_offset
            if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
                start = chunk.dictionary_page_offset
            if start < 0 or chunk.total_compressed_size < 0:
                raise InputError(UNREADABLE)
            for page in pages(body, start, start + chunk.total_compressed_size):
                count, size, expanded = count + 1, size + page.size, expanded + page.expanded
                _check_bytes(size)
                if count > PAGES or page.values > VALUES or expanded > EXPANDED_BYTES:
                    raise InputError(f"the body has more pages or values than a request has; {LIMITED}")
                if page.dictionary:
                    shared.add(metadata.schema.column(number).path)
    return sorted(shared)


def _check_bytes(size: int) -> None:
    if size > bodies.MAX_BYTES:
        raise InputError(f"the body expands to more than {bodies.MAX_BYTES:,} bytes; {LIMITED}")


def _index(stored: pa.Schema) -> set[str]:
    """The columns that hold a frame's index, according to pandas."""
    described = stored.pandas_metadata
    names = described.get("index_columns") if isinstance(described, dict) else None
    return {name for name in names or () if isinstance(name, str)}


def _texts(kind: pa.DataType, several: bool) -> bool:
    """Return whether values of a type are text, or lists of text."""
    if several:
        return _is_list(kind) and _texts(kind.value_type, False)
    if pa.types.is_dictionary(kind):  # a category of pandas
        kind = kind.value_type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


def _text_bytes(chunk: pa.Array) -> Any:
    """The bytes of all texts, each counted as often as it occurs."""
    texts = chunk.flatten() if _is_list(chunk.type) else chunk
    if pa.types.is_dictionary(texts.type):
        lengths = pc.binary_length(texts.dictionary).cast(pa.int64()).take(texts.indices)
    else:
        lengths = pc.binary_length(texts).cast(pa.int64())
    return pc.sum(lengths).as_py() or 0
