"""Odd requests to a running service, as bytes on sockets: each gets a status and one sentence, and harms nobody."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support import raw_http
from tests.support.attacked import PROTOCOLS, SECRET, Service, check, read

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.usefixtures("unharmed")]


def replaced(body: Any, value: Any) -> Any:
    """A body with another value in place of its text."""
    if isinstance(body, dict):
        return {key: replaced(inner, value) for key, inner in body.items()}
    if isinstance(body, list):
        return [replaced(inner, value) for inner in body]
    return value if body == SECRET else body


DEEP = b"[" * 10_000 + b"]" * 10_000
ODD: dict[str, Callable[[bytes], bytes]] = {  # of the right body
    "nothing": lambda right: b"",
    "cut off": lambda right: right[:-3],
    "two documents": lambda right: right * 2,
    "a list": lambda right: b"[]",
    "null": lambda right: b"null",
    "a text": lambda right: b'"text"',
    "a number too large": lambda right: b"1e999",
    "not UTF-8": lambda right: right.replace(json.dumps(SECRET).encode(), b'"\xff\xfe"'),
    "half of a surrogate pair": lambda right: right.replace(json.dumps(SECRET).encode(), b'"\\ud800"'),
    "UTF-16": lambda right: right.decode().encode("utf-16"),
    "nested 10,000 deep": lambda right: DEEP,
    "nested in place of the text": lambda right: right.replace(json.dumps(SECRET).encode(), DEEP),
    "nested objects": lambda right: b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "a key twice": lambda right: right[:-1] + b"," + right[1:],
    "NaN": lambda right: right.replace(json.dumps(SECRET).encode(), b"NaN"),
    "null bytes": lambda right: bytes(1000),
    "5,000 digits": lambda right: right.replace(json.dumps(SECRET).encode(), b"9" * 5000),
}
TYPES = (1, 1.5, True, None, {}, [], [[]], [[SECRET]], {"text": SECRET}, [None], [1], "x" * 20_001)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_an_odd_body_is_one_sentence(service: Service, name: str) -> None:
    protocol = PROTOCOLS[name]
    right = raw_http.encoded(protocol.body)
    for kind, change in ODD.items():
        body = change(right)
        assert body != right, kind
        check(protocol, raw_http.post(service.address, protocol.path, body), protocol.invalid)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_wrong_type_is_one_sentence(service: Service, name: str) -> None:
    protocol, refused = PROTOCOLS[name], 0
    for value in TYPES:
        answer = raw_http.post(service.address, protocol.path, raw_http.encoded(replaced(protocol.body, value)))
        if answer.status == 200:  # such as a list of one text, which some protocols take
            assert isinstance(value, list | dict), value
            continue
        check(protocol, answer, protocol.invalid)
        refused += 1
    assert refused >= len(TYPES) - 2


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_wrong_name_method_or_path_is_one_sentence(service: Service, name: str) -> None:
    protocol = PROTOCOLS[name]
    right = raw_http.encoded(protocol.body)
    unknown = protocol.path.replace("single", "singel"), right.replace(b'"encoder"', b'"encodre"')
    check(protocol, raw_http.post(service.address, *unknown), 404)
    for method in ("GET", "PUT", "PATCH", "OPTIONS", "TRACE", "SPAM"):
        answer = raw_http.request(method, service.address, protocol.path, None, {})
        if method == "SPAM":
            assert answer.status == 400
        else:
            check(protocol, answer, 405, 404)
    check(protocol, raw_http.post(service.address, f"{protocol.path}/more/%2e%2e/x", right), 404)
    alias = protocol.path.replace("single", "single@nobody")
    if alias != protocol.path:
        check(protocol, raw_http.post(service.address, alias, right), 404)


SMUGGLED = b"GET /admin HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEAD = b"POST /predict/single HTTP/1.1\r\nHost: localhost\r\n"
SHAPES = {
    "a length and chunks": HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "chunks and a length": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "two lengths": HEAD + b"Content-Length: 5\r\nContent-Length: 0\r\n\r\n12345" + SMUGGLED,
    "one length twice": HEAD + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\n12345" + SMUGGLED,
    "a list of lengths": HEAD + b"Content-Length: 5, 5\r\n\r\n12345" + SMUGGLED,
    "a length with a sign": HEAD + b"Content-Length: +5\r\n\r\n12345" + SMUGGLED,
    "a negative length": HEAD + b"Content-Length: -1\r\n\r\n12345" + SMUGGLED,
    "a length in hexadecimal": HEAD + b"Content-Length: 0x5\r\n\r\n12345" + SMUGGLED,
    "a space before the colon": HEAD + b"Content-Length : 5\r\n\r\n12345" + SMUGGLED,
    "a folded header": HEAD + b"Content-Length:\r\n 5\r\n\r\n12345" + SMUGGLED,
    "a folded coding": HEAD + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "another coding": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "chunks that are not last": HEAD + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "lines that end in LF": HEAD.replace(b"\r\n", b"\n") + b"Content-Length: 5\n\n12345" + SMUGGLED,
    "a chunk of a negative size": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n" + SMUGGLED,
    "a chunk of a huge size": HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n\r\n" + SMUGGLED,
    "a null byte in a header": HEAD + b"X: a\x00b\r\n\r\n" + SMUGGLED,
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(50),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no path": b"GET  HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "spaces": b" " * 10_000 + b"\r\n\r\n",
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_request_that_could_be_read_in_two_ways_is_refused(service: Service, name: str) -> None:
    """A proxy may see one request where the service sees two: the connection ends with the first."""
    with ExitStack() as stack:
        line = service.connect(stack)
        line.sendall(SHAPES[name])
        answer = read(line)
        assert answer
        assert 400 <= answer.status < 500, answer
        assert list(answer.json()) == ["detail"]
        if answer.status != 404:
            assert answer.headers["connection"] == "close"
            assert read(line) is None, "the smuggled request was answered too"


def test_many_requests_on_one_connection_are_answered_in_order(service: Service) -> None:
    right = raw_http.encoded(PROTOCOLS["plain"].body)
    one = b"POST /predict/single HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (len(right), right)
    with ExitStack() as stack:
        line = service.connect(stack)
        line.sendall(one * 50 + b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        text = b""
        while part := line.recv(65536):
            text += part
    assert text.count(b"HTTP/1.1 200 OK") == 50
    assert text.rindex(b"HTTP/1.1 404") > text.rindex(b"HTTP/1.1 200")
