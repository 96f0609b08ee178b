"""HTTP requests as bytes on a socket, and their answers."""

import http.client
import json
import socket
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def encoded(body: Any) -> bytes:
    """A body as JSON, or bytes as they are."""
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def post(address: str, path: str, body: bytes, headers: dict[str, str] | None = None) -> Answer:
    return request("POST", address, path, body, {"Content-Type": "application/json"} | (headers or {}))


def get(address: str, path: str, headers: dict[str, str] | None = None) -> Answer:
    return request("GET", address, path, None, headers or {})


def request(method: str, address: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def hang_up(address: str, path: str, body: bytes) -> None:
    """Send a request, and close the connection without reading the answer."""
    url = urlsplit(address)
    with socket.create_connection((url.hostname, url.port), 10) as connection:
        head = f"POST {path} HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
