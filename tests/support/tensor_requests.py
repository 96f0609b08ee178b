"""Requests of the Open Inference Protocol without a client library, with the rows of `kinds`."""

import http.client
import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from pipelines.core import schema
from pipelines.serving import row_batcher
from pipelines.serving.catalogue import Catalogue
from tests.support import kinds, served

LENGTH = "inference-header-content-length"
ROWS = 5


class Service(NamedTuple):
    address: str
    models: Catalogue


class Answered(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@contextmanager
def serving(folders: dict[str, Path]) -> Iterator[Service]:
    """A service of model folders, which runs the rows of a request in one batch, as `Predictor.predict` does.

    The bits of a torch model depend on the batch; an exported model's do not.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_batcher, "LEAST_BUDGET", row_batcher.MOST_BUDGET)
        models = served.catalogue(folders)
        with served.serving(models) as address:
            yield Service(address, models)


def ask(address: str, path: str, body: bytes | None = None, verb: str = "", **headers: Any) -> Answered:
    """One request, without a client library."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
    try:
        sent = {name.replace("_", "-"): str(value) for name, value in headers.items()}
        connection.request(verb or ("GET" if body is None else "POST"), path, body, sent)
        response = connection.getresponse()
        answered = {name.lower(): value for name, value in response.headers.items()}
        return Answered(response.status, answered, response.read())
    finally:
        connection.close()


def infer(
    service: Service, kind: str, request: dict[str, Any], binary: bytes | None = None, path: str = ""
) -> Answered:
    """The response to a request; with `binary`, which follows its JSON, as a binary request."""
    text = json.dumps(request).encode()
    headers = {} if binary is None else {"Inference_Header_Content_Length": len(text)}
    return ask(service.address, path or f"/v2/models/{kind}/infer", text + (binary or b""), **headers)


def rows(kind: str) -> pa.Table:
    return kinds.rows(kind).slice(3, ROWS).select(schema.INPUTS[kind])


def as_json(kind: str) -> list[dict[str, Any]]:
    """The rows as input tensors in JSON."""
    columns = rows(kind).to_pydict()
    return [
        {"name": name, "shape": shape_of(column), "datatype": "BYTES", "data": column}
        for name, column in columns.items()
    ]


def shape_of(column: list[Any]) -> list[int]:
    return [len(column), len(column[0])] if isinstance(column[0], list) else [len(column)]


def packed(texts: list[str]) -> bytes:
    return b"".join(struct.pack("<I", len(text.encode())) + text.encode() for text in texts)


def flat(column: list[Any]) -> list[Any]:
    return [value for values in column for value in values] if isinstance(column[0], list) else column


def as_binary(kind: str) -> tuple[list[dict[str, Any]], bytes]:
    """The rows as input tensors with binary data."""
    described, parts = [], []
    for tensor in as_json(kind):
        parts.append(packed(flat(tensor.pop("data"))))
        described.append(tensor | {"parameters": {"binary_data_size": len(parts[-1])}})
    return described, b"".join(parts)


def unpacked(data: bytes) -> list[str]:
    texts = []
    while data:
        (length,) = struct.unpack_from("<I", data)
        texts.append(data[4 : 4 + length].decode())
        data = data[4 + length :]
    return texts


def read_binary(answer: Answered) -> dict[str, tuple[list[int], Any]]:
    """The output tensors of a binary response: the shape, and bytes or texts."""
    length = int(answer.headers[LENGTH])
    described, rest, outputs = json.loads(answer.body[:length])["outputs"], answer.body[length:], {}
    for tensor in described:
        size = tensor["parameters"]["binary_data_size"]
        data, rest = rest[:size], rest[size:]
        assert "data" not in tensor
        outputs[tensor["name"]] = (tensor["shape"], unpacked(data) if tensor["datatype"] == "BYTES" else data)
    assert rest == b""
    return outputs
