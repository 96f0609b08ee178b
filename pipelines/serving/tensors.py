"""Tensors of the Open Inference Protocol, as JSON or as bytes: columns of rows, and columns of predictions.

The elements of BYTES tensors are texts in UTF-8. As bytes, each stands after its length, a little-endian uint32.
"""

import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from pipelines.core import schema
from pipelines.core.errors import InputError, shown
from pipelines.core.task import Task
from pipelines.inference import embedding, fill_mask
from pipelines.serving import frames, limits

BYTES, FP32, INT32 = "BYTES", "FP32", "INT32"
LENGTH = struct.Struct("<I")  # of an element of BYTES
# the columns of predictions by the kind of rows
FIELDS = schema.PREDICTIONS | {embedding.KIND: embedding.FIELDS, fill_mask.KIND: fill_mask.FIELDS}
NUMBERS = {FP32: "<f4", INT32: "<i4"}


@dataclass(frozen=True)
class Described:
    """A tensor that a model reads or returns; -1 in its shape is the number of rows."""

    name: str
    datatype: str
    shape: list[int]


def inputs(task: Task) -> dict[str, Described]:
    """The input tensors of a model, one for each column of its rows: BYTES (N,), or (N, C) for C choices."""
    several = frames.lists(task.kind)
    return {
        name: Described(name, BYTES, [-1, len(task.labels)] if name in several else [-1])
        for name in schema.INPUTS[task.kind]
    }


def outputs(task: Task) -> dict[str, Described]:
    """The output tensors of a model, one for each column of its predictions.

    They have shape (N,), but `scores` (N, L) for L labels, and `vector` (N, H) with a width H that the description
    leaves open. An element of `entities`, `entity_scores` or `guesses` is the JSON list of a row.
    """
    described = {}
    for field in FIELDS[task.kind]:
        if field.name == "scores":
            described[field.name] = Described(field.name, FP32, [-1, len(task.labels)])
        elif field.name == "vector":
            described[field.name] = Described(field.name, FP32, [-1, -1])
        elif field.name != "id":
            numbers = FP32 if pa.types.is_float32(field.type) else INT32 if pa.types.is_int32(field.type) else BYTES
            described[field.name] = Described(field.name, numbers, [-1])
    return described


def column(texts: list[str], described: Described) -> list[Any]:
    """The elements of an input as a column of the rows: a text for each row, or a list of texts."""
    if len(described.shape) == 1:
        return texts
    width = described.shape[1]
    return [texts[first : first + width] for first in range(0, len(texts), width)]


def check_shape(shape: list[int], described: Described) -> None:
    """Raise InputError if the shape of an input is not the described one, (N, 1) for (N,), or has too many rows."""
    width = described.shape[1] if len(described.shape) == 2 else 1
    either = "[N] or [N, 1]" if len(described.shape) == 1 else f"[N, {width}]"
    flat = len(shape) == len(described.shape) == 1
    if not flat and not (len(shape) == 2 and shape[1] == width):
        raise InputError(f"the input {described.name}: the shape is {shown(shape)}; {either} is expected for N rows")
    if not shape[0]:
        raise InputError(f"the input {described.name} has no rows; a request has at least one")
    limits.check_rows(shape[0])


def from_json(data: list[Any], shape: list[int], place: str) -> list[str]:
    """The elements of a BYTES tensor in JSON: a flat list, or lists nested as the shape. Raises InputError."""
    if any(isinstance(part, list) for part in data):
        nested = len(shape) == 2 and all(isinstance(part, list) and len(part) == shape[1] for part in data)
        if not nested:
            raise InputError(f"{place}: the lists in its data do not have the shape {shape}")
        data = [element for part in data for element in part]
    count = math.prod(shape)
    if len(data) != count:
        raise InputError(f"{place}: the data has {len(data)} elements; the shape {shape} has {count}")
    for number, element in enumerate(data):
        if not isinstance(element, str):
            raise InputError(f"{place}: element {number} of the data is not a string")
    return data


def from_bytes(data: memoryview, shape: list[int], place: str) -> list[str]:
    """The elements of a BYTES tensor in its binary form. Raises InputError."""
    texts, start, count = [], 0, math.prod(shape)
    for number in range(count):
        if start + LENGTH.size > len(data):
            raise InputError(f"{place}: the binary data ends before element {number}; the shape {shape} has {count}")
        (length,) = LENGTH.unpack_from(data, start)
        start += LENGTH.size
        if length > len(data) - start:
            raise InputError(f"{place}: element {number} has {length} bytes, but only {len(data) - start} follow")
        try:
            texts.append(str(data[start : start + length], "utf-8"))
        except UnicodeDecodeError:
            raise InputError(f"{place}: element {number} is not UTF-8") from None
        start += length
    if start < len(data):
        raise InputError(f"{place}: {len(data) - start} bytes follow its {count} elements")
    return texts


def elements(described: Described, predictions: list[dict[str, Any]]) -> list[Any]:
    """The elements of an output tensor for these predictions, in row-major order."""
    values = [row[described.name] for row in predictions]
    if len(described.shape) == 2:
        return [number for numbers in values for number in numbers]
    if values and isinstance(values[0], list):
        return [orjson.dumps(listed).decode() for listed in values]
    return values


def classes(predictions: list[dict[str, Any]], labels: tuple[str, ...], count: int) -> list[str]:
    """The `count` best labels of each row as SCORE:INDEX:LABEL, best first, in row-major order.

    SCORE is the shortest decimal number with the same float32.
    """
    scores = np.array([row["scores"] for row in predictions], np.float32)  # (N, L)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    return [
        f"{scores[row, index]!s}:{index}:{labels[index]}"
        for row, indices in enumerate(best.tolist())
        for index in indices
    ]


def to_bytes(datatype: str, values: list[Any]) -> bytes:
    """The binary form of a tensor's elements."""
    if datatype in NUMBERS:
        return np.array(values, NUMBERS[datatype]).tobytes()
    encoded = [text.encode() for text in values]
    return b"".join(part for text in encoded for part in (LENGTH.pack(len(text)), text))
