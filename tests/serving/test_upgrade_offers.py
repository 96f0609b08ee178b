"""A request that offers another protocol is one as any other: its body is its body, and no request of its own."""

import json
import shutil
import socket
import subprocess
import threading
from contextlib import suppress
from typing import Any

import pytest
import uvicorn

from pipelines.core.ports import free_port
from pipelines.serving import connections
from tests.serving.test_times_of_connections import listening
from tests.support import proxied, raw_http, servers
from tests.support.attacked import read

OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAA\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNKED = b"%x\r\n%b\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED)
LAST = b"GET /last HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer with what was read of a request."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message["more_body"]
    names = [name.decode() for name, _ in scope["headers"]]
    seen = json.dumps([scope["method"], scope["path"], body.decode(), names]).encode() + b"\n"
    headers = [(b"content-length", str(len(seen)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": seen})


def post(more: bytes = b"", version: bytes = b"1.1", framing: bytes = b"") -> bytes:
    framing = framing or b"Content-Length: %d\r\n" % len(SMUGGLED)
    return b"POST /it?a=1 HTTP/%b\r\nHost: localhost\r\n%b%b%b\r\n" % (version, OFFER, more, framing)


def answers(*segments: bytes) -> list[list[Any]]:
    """What the application read of the requests on a connection to the service, which a last request ends."""
    with listening(app) as (_, _, address):
        return answers_at(address, *segments)


def answers_at(address: tuple[str, int], *segments: bytes) -> list[list[Any]]:
    text = b""
    with socket.create_connection(address, 60) as line:
        for segment in segments:
            line.sendall(segment)
            line.settimeout(0.1)  # for the service to read the segment alone
            with suppress(TimeoutError):
                line.recv(1, socket.MSG_PEEK)
        line.settimeout(60)
        while part := line.recv(65536):
            text += part
    seen = [json.loads(answer) for answer in text.splitlines() if answer.startswith(b"[")]
    assert text.count(b"HTTP/1.1 ") == text.count(b"HTTP/1.1 200 OK") == len(seen), text
    return seen


def check(seen: list[list[Any]], *paths: str) -> None:
    """The first request has its body, and nothing but the others of these paths was answered."""
    assert [path for _, path, _, _ in seen] == ["/it", *paths]
    assert seen[0][:3] == ["POST", "/it", SMUGGLED.decode()]
    assert "upgrade" not in seen[0][3]


@pytest.mark.parametrize("framing", [b"", b"Transfer-Encoding: chunked\r\n"])
def test_the_body_is_read_in_the_same_and_in_a_later_segment(framing: bytes) -> None:
    head, body = post(framing=framing), CHUNKED if framing else SMUGGLED
    check(answers(head + body + LAST), "/last")
    check(answers(head, body, LAST), "/last")
    check(answers(head + body[:9], body[9:] + LAST), "/last")
    check(answers(head + body, head + body + LAST), "/it", "/last")


@pytest.mark.parametrize("at", ["Upg", "Upgrade: h", "POST", "HTTP2-Sett", "\r\n\r"])
def test_a_head_in_two_segments_is_read_as_one(at: str) -> None:
    head = post()
    cut = head.index(at.encode()) + len(at)
    check(answers(head[:cut], head[cut:] + SMUGGLED + LAST), "/last")
    check(answers(head[:cut], head[cut:], SMUGGLED, LAST), "/last")


def test_nothing_behind_the_last_request_is_answered() -> None:
    check(answers(post(b"Connection: close\r\n") + SMUGGLED + LAST))
    check(answers(post(version=b"1.0"), SMUGGLED + LAST))


def test_many_offers_in_one_segment_are_answered_in_order() -> None:
    seen = answers((post() + SMUGGLED) * 1500 + LAST)
    check(seen, *["/it"] * 1499, "/last")


def test_the_headers_of_an_offer_have_the_same_limit() -> None:
    long = b"X: %b\r\n" % (b"x" * (connections.HEAD_BYTES - 1000))
    check(answers(post(long), SMUGGLED, LAST), "/last")
    with listening(app) as (_, _, address), socket.create_connection(address, 60) as line:
        line.sendall(post(long + long)[:-2])
        answer = read(line)
        assert answer
        assert answer.status == 431


@pytest.mark.parametrize("more", [b"", OFFER])
def test_a_tunnel_is_refused(more: bytes) -> None:
    with listening(app) as (_, _, address), socket.create_connection(address, 60) as line:
        line.sendall(b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n%b\r\n%b" % (more, SMUGGLED))
        answer = read(line)
        assert answer
        assert (answer.status, answer.headers["connection"]) == (400, "close")
        assert read(line) is None


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
def test_curl_may_offer_http_2() -> None:
    body = '{"rows":[{"text":"hi"}]}'
    with listening(app) as (_, _, (host, port)):
        call = ["curl", "--silent", "--show-error", "--http2", "--data", body, f"http://{host}:{port}/it"]
        ended = subprocess.run(call, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(ended.stdout)[:3] == ["POST", "/it", body]


def test_the_proxy_of_replicas_passes_no_offer_on() -> None:
    """HAProxy takes `Upgrade` from a request with a body; a replica's uvicorn would leave the body unread."""
    port, listener = free_port(), socket.create_server(("127.0.0.1", 0))
    replica = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="error"))
    thread = threading.Thread(target=replica.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        with proxied.place() as folder, listener:
            config = proxied.written(folder, port, [listener.getsockname()[1]])
            with proxied.running(config, port):
                servers.wait_until(
                    lambda: raw_http.get(f"http://127.0.0.1:{port}", "/").status == 200, "it answers", 30
                )
                check(answers_at(("127.0.0.1", port), post() + SMUGGLED + LAST), "/last")
                check(answers_at(("127.0.0.1", port), post(), SMUGGLED, LAST), "/last")
    finally:
        replica.should_exit = True
        thread.join()
