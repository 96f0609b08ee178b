"""Parquet in requests: what expands to more than a request may have is refused before it is expanded."""

import io
import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.core.errors import InputError
from pipelines.serving import bodies, parquet_rows

LIMITED = "a request takes no more, and `bertline score` has no limit"


def parquet(table: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(table), file, **options)
    return file.getvalue()


def refused(body: bytes, kind: str = "single") -> str:
    """The sentence of a refused body; no more memory than a few bodies is allocated."""
    assert len(body) <= bodies.MAX_BYTES
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    tracemalloc.start()
    pa.set_memory_pool(pool)
    try:
        with pytest.raises(InputError) as refusal:
            parquet_rows.columns(body, kind)
        assert tracemalloc.get_traced_memory()[1] + pool.max_memory() < 5 * bodies.MAX_BYTES
    finally:
        pa.set_memory_pool(before)
        tracemalloc.stop()
    return str(refusal.value)


def varint(number: int, size: int = 0) -> bytes:
    """A signed number in Thrift's compact protocol, padded to `size` bytes."""
    number, digits = number * 2, bytearray()
    while number or len(digits) < max(1, size):
        digits.append(number & 127 | 128)
        number >>= 7
    digits[-1] &= 127
    return bytes(digits)


def with_less_in_the_footer(body: bytes) -> bytes:
    """The same pages, but the footer gives 1,000 bytes as their size."""
    group = pq.read_metadata(io.BytesIO(body)).row_group(0)
    footer = len(body) - 8 - int.from_bytes(body[-8:-4], "little")
    small = body[footer:]
    for size in {group.total_byte_size, *(group.column(i).total_uncompressed_size for i in range(group.num_columns))}:
        small = small.replace(varint(size), varint(1000, len(varint(size))))
    changed = body[:footer] + small
    assert pq.read_metadata(io.BytesIO(changed)).row_group(0).column(0).total_uncompressed_size == 1000
    return changed


def test_one_text_of_100_mb_is_refused_whatever_the_footer_says() -> None:
    body = parquet({"text": ["a" * 100_000_000]}, compression="zstd", use_dictionary=False, write_statistics=False)
    assert len(body) < 20_000
    sentence = f"the body expands to more than 4,000,000 bytes; {LIMITED}"
    assert refused(body) == sentence
    assert refused(with_less_in_the_footer(body)) == sentence


def test_many_rows_are_refused() -> None:
    assert refused(parquet({"text": [""] * 3_000_000})) == f"over 256 rows; {LIMITED}"
    assert refused(parquet({"text": ["a"] * 257})) == f"over 256 rows; {LIMITED}"
    assert len(parquet_rows.columns(parquet({"text": ["a"] * 256}), "single")["text"]) == 256


def test_a_text_in_all_rows_counts_in_each() -> None:
    sentence = f"over 200000 characters in all rows; {LIMITED}"
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 256, pa.int32()), ["a" * 3_000_000])
    assert refused(parquet({"text": text}, dictionary_pagesize_limit=10_000_000)) == sentence
    assert refused(parquet({"text": ["a"] * 200, "choices": [["b" * 1000] * 64] * 200}), "choice") == sentence


def test_shared_prefixes_that_expand_are_refused() -> None:
    texts = ["a" * 1_000_000] * 200
    body = parquet({"text": texts}, use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY"})
    assert refused(body) == f"the body has more pages or values than a request has; {LIMITED}"


def test_a_list_of_a_million_is_refused() -> None:
    million = pa.ListArray.from_arrays(np.array([0, 1_000_000], np.int32), pa.array([""] * 1_000_000))
    body = parquet({"text": ["a"], "choices": million})
    assert refused(body, "choice") == f"the body has more pages or values than a request has; {LIMITED}"


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"text": [1, 2]}, "the column 'text' does not hold text"),
        ({"text": [["a"]]}, "the column 'text' does not hold text"),
        ({"text": [b"a"]}, "the column 'text' does not hold text"),
        ({"text": [{"text": "a"}]}, "the column 'text' does not hold text"),
        ({"text": pa.array([None, None])}, "the column 'text' does not hold text"),
        ({"txt": ["a"]}, "no column 'txt' (did you mean 'text'?); there are: text"),
    ],
)
def test_other_types_are_one_sentence(table: dict[str, Any], sentence: str) -> None:
    assert refused(parquet(table)) == sentence


def test_types_of_text_are_read() -> None:
    texts = ["犬", "a", "犬"]
    for column in (pa.array(texts, pa.large_string()), pa.array(texts).dictionary_encode()):
        assert parquet_rows.columns(parquet({"text": column}), "single") == {"text": texts}
    category = pd.DataFrame({"text": pd.Categorical(texts)}).to_parquet()
    assert parquet_rows.columns(category, "single") == {"text": texts}
    assert parquet_rows.columns(parquet({"text": pa.array(["a", None])}), "single") == {"text": ["a", None]}
    large = pa.array([["a", "b", "c"]], pa.large_list(pa.string()))
    assert parquet_rows.columns(parquet({"choices": large}), "choice") == {"choices": [["a", "b", "c"]]}


def test_two_columns_of_one_name_and_text_that_is_not_utf_8_are_refused() -> None:
    twice = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], ["text", "text"])
    assert refused(parquet(twice)) == "two columns are named 'text'; rename one of them"
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe"], pa.binary()).buffers())
    assert refused(parquet({"text": broken})) == parquet_rows.UNREADABLE


def outcome(body: bytes) -> str:
    """The sentence of a refused body; empty for one that can be read."""
    try:
        parquet_rows.columns(body, "pair")
    except InputError as error:
        return str(error)
    return ""


def test_no_damage_is_more_than_one_sentence() -> None:
    """Every byte in turn is changed, and the body is cut everywhere."""
    whole = parquet({"text": ["犬", "a", "犬"], "text_pair": ["b"] * 3})
    rng = np.random.default_rng(1)
    damaged = [whole[:place] for place in range(0, len(whole), 7)]
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] = rng.integers(256)
        damaged.append(bytes(changed))
    sentences = [sentence for body in damaged if (sentence := outcome(body))]
    assert 0 < len(sentences) < len(damaged)
    assert max(map(len, sentences)) < 200
