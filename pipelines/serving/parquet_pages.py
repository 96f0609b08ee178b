"""The sizes of a Parquet file's pages, read from their headers without expanding a page.

A footer also has sizes, but Arrow allocates what the pages' headers say. A header is a struct in Thrift's compact
protocol (https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md); the fields are those of
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(13)
DEPTH = 6  # of structs in a page's header: its statistics are at 3
UNCOMPRESSED, COMPRESSED = 2, 3  # fields of a page's header
VALUES = 1  # a field of each struct in DATA
# the structs in a page's header that describe its data -> their field with the encoding
DICTIONARY = 7
DATA = {5: 2, DICTIONARY: 2, 8: 4}  # a data page, a dictionary, a data page of version 2
PREFIXES = 7  # the encoding DELTA_BYTE_ARRAY: a value may repeat the start of the one before


class Page(NamedTuple):
    size: int  # of the whole page, in bytes
    expanded: int  # the most bytes that its values may take
    values: int
    dictionary: bool  # the values of the pages after it are numbers of its values


def pages(body: bytes, start: int, end: int) -> Iterator[Page]:
    """The pages in bytes [start, end) of a file. Raises ValueError if they are damaged."""
    while start < end:
        header, start = _struct(body, start, 0)
        size, values, encoding = _number(header, UNCOMPRESSED), 0, 0
        for field, encoded in DATA.items():
            if isinstance(data := header.get(field), dict):
                values, encoding = _number(data, VALUES), _number(data, encoded)
        expanded = size * max(1, values) if encoding == PREFIXES else size
        yield Page(size, expanded, values, DICTIONARY in header)
        start += _number(header, COMPRESSED)
    if start != end:
        raise ValueError("the pages end elsewhere than the column")


def _number(fields: dict[int, Any], field: int) -> int:
    number = fields.get(field)
    if not isinstance(number, int) or number < 0:
        raise ValueError("a page's header lacks a number")
    return number


def _struct(body: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """The fields with integers and structs of the struct at `at`, and the place after it."""
    if depth > DEPTH:
        raise ValueError("structs are nested too deep")
    fields: dict[int, Any] = {}
    number = 0
    while True:
        head, at = _byte(body, at)
        kind, step = head & 15, head >> 4
        if kind == STOP:
            return fields, at
        if step:
            number += step
        else:
            number, at = _integer(body, at)
        if kind in (TRUE, FALSE):  # the header is the value
            continue
        fields[number], at = _value(body, at, kind, depth)


def _value(body: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    """The value at `at`, and the place after it; None unless it is an integer or a struct."""
    if kind in (I16, I32, I64):
        return _integer(body, at)
    if kind == STRUCT:
        return _struct(body, at, depth + 1)
    if kind == BYTE:
        return None, at + 1
    if kind == DOUBLE:
        return None, at + 8
    if kind == BINARY:
        length, at = _varint(body, at)
        return None, at + length
    raise ValueError("no field of a page's header has this type")  # lists, sets and maps


def _byte(body: bytes, at: int) -> tuple[int, int]:
    if at >= len(body):
        raise ValueError("a header ends early")
    return body[at], at + 1


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """The unsigned number at `at`, seven bits a byte, and the place after it."""
    number = 0
    for shift in range(0, 70, 7):
        byte, at = _byte(body, at)
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
    raise ValueError("a number is too long")


def _integer(body: bytes, at: int) -> tuple[int, int]:
    """The signed number at `at`, and the place after it."""
    number, at = _varint(body, at)
    return (number >> 1) ^ -(number & 1), at
