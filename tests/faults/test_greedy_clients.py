"""Clients that take too much of a running service: large, slow, many, or gone. Others are answered meanwhile."""

import gzip
import resource
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from pipelines.serving import bodies, connections
from tests.support import raw_http
from tests.support.attacked import PROTOCOLS, Service, check, read

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.usefixtures("unharmed")]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_large_and_compressed_bodies_are_refused_without_being_held(service: Service, name: str) -> None:
    protocol, before, peak = PROTOCOLS[name], service.memory().rss, 0
    head = f"POST {protocol.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
    chunk, start = b" " * 100_000, time.monotonic()

    def sent(first: bytes, part: bytes) -> Iterator[bytes]:
        nonlocal peak
        yield first
        for _ in range(1000):
            peak = max(peak, service.memory().rss)
            yield part

    check(protocol, service.exchange(*sent(head + b"Content-Length: 100000000\r\n\r\n", chunk)), 413)
    chunked = b"%x\r\n%b\r\n" % (len(chunk), chunk)
    check(protocol, service.exchange(*sent(head + b"Transfer-Encoding: chunked\r\n\r\n", chunked)), 413)
    waiting = service.exchange(head + b"Content-Length: 100000000\r\nExpect: 100-continue\r\n\r\n")
    check(protocol, waiting, 413)
    bomb = gzip.compress(bytes(50_000_000))
    for encoding in ("gzip", "deflate", "br", "gzip, gzip"):
        answer = raw_http.post(service.address, protocol.path, bomb, {"Content-Encoding": encoding})
        check(protocol, answer, protocol.invalid)
    assert peak - before < 30_000_000, "the bodies have 100 MB, the limit is 4 MB"
    assert time.monotonic() - start < 60


def test_large_headers_are_refused(service: Service) -> None:
    before = service.memory().rss
    plain = PROTOCOLS["plain"]
    for part in (b"X: " + b"x" * 60_000 + b"\r\n", b"X" * 60_000):
        head = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
        check(plain, service.exchange(head, *[part] * 500), 431)
    check(plain, service.exchange(b"GET /" + b"x" * 300_000), 431)
    many = service.exchange(b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 9000 + b"\r\n")
    assert many
    assert many.status == 200
    assert service.memory().rss - before < 20_000_000


def test_trailers_and_headers_behind_a_request_have_the_same_limit(service: Service) -> None:
    """uvicorn's parser keeps what it reads of them, whatever the answer is and whenever it is sent."""
    before = service.memory().rss
    chunked = b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    body = raw_http.encoded(PROTOCOLS["plain"].body)
    head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n".encode()
    first = head + b"Content-Type: application/json\r\n\r\n" + body
    for start, more in (
        (chunked, b"aa: bb\r\n" * 10_000),
        (chunked + b"X: ", b"x" * 80_000),
        (chunked.replace(b"0\r\n", b"1;"), b"x" * 80_000),
        (first + b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: ", b"x" * 80_000),
    ):
        sent = 0
        with socket.create_connection(("127.0.0.1", service.port), 60) as line, suppress(OSError):
            line.sendall(start)
            for _ in range(500):
                line.sendall(more)
                sent += len(more)
        assert sent < 20_000_000, "the service closes the connection"
    assert service.memory().rss - before < 20_000_000


def test_a_client_that_hangs_up_within_its_body_is_no_failure(service: Service) -> None:
    with socket.create_connection(("127.0.0.1", service.port), 60) as line:
        line.sendall(b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
    counts = ""
    deadline = time.monotonic() + 30
    while 'status="499"' not in counts and time.monotonic() < deadline:
        counts = raw_http.get(service.address, "/metrics").body.decode()
        time.sleep(0.1)
    assert 'status="499"' in counts
    assert 'status="500"' not in counts


def test_slow_and_idle_clients_keep_nobody_out(service: Service) -> None:
    """300 idle connections, and clients that send a byte a second: others are answered, and these are closed."""
    plain, right = PROTOCOLS["plain"], raw_http.encoded(PROTOCOLS["plain"].body)
    head = b"POST /predict/single HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
    with ExitStack() as stack:
        start = time.monotonic()
        idle = [service.connect(stack) for _ in range(300)]
        heads = [service.connect(stack) for _ in range(20)]
        slow = [service.connect(stack) for _ in range(40)]
        for line in slow:
            line.sendall(head)
        for number in range(5):
            with suppress(OSError):  # on a busy machine some may be closed already
                for line in heads:
                    line.sendall(b"GET /"[number : number + 1])
                for line in slow:
                    line.sendall(b" ")
            began = time.monotonic()
            assert raw_http.post(service.address, plain.path, right).status == 200
            assert time.monotonic() - began < 5, "it did not wait for them"
            time.sleep(1)
        for line in slow:
            check(plain, read(line), 408)
        for line in heads:
            check(plain, read(line), 408)
        assert [line.recv(10) for line in idle] == [b""] * 300
        assert time.monotonic() - start < 60


def test_more_connections_than_the_service_takes_close_the_silent_ones(service: Service) -> None:
    """With few files to open it takes few connections."""
    before = resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE)
    files = psutil.Process(service.process.pid).num_fds() + 200
    resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (files, before[1]))
    try:
        with ExitStack() as stack:
            start = time.monotonic()
            idle = [service.connect(stack) for _ in range(files // 2 - 10)]
            more = [service.connect(stack) for _ in range(20)]
            for line in more[-5:]:
                line.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                answer = read(line)
                assert answer
                assert answer.status == 200
            assert idle[0].recv(10) == b"", "the oldest made room"
            assert time.monotonic() - start < connections.HEAD_SECONDS, "it was not closed for its silence alone"
    finally:
        resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, before)


def test_bodies_together_have_a_limit_and_small_ones_pass(service: Service) -> None:
    """30 clients hold almost 4 MB each: the service keeps 64 MB of them, refuses the others, and answers small ones."""
    plain, right = PROTOCOLS["plain"], raw_http.encoded(PROTOCOLS["plain"].body)
    before, size = service.memory().rss, bodies.MAX_BYTES - 10
    head = f"POST /predict/single HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n".encode()
    with ExitStack() as stack:
        slow = [service.connect(stack) for _ in range(30)]

        def fill(line: socket.socket) -> None:
            with suppress(OSError):
                line.sendall(head + b" " * (size - 5))

        with ThreadPoolExecutor(30) as pool:
            list(pool.map(fill, slow))
        began = time.monotonic()
        assert raw_http.post(service.address, plain.path, right).status == 200
        assert time.monotonic() - began < 5
        assert service.memory().rss - before < 2.5 * bodies.HELD_BYTES
        answers = [read(line) for line in slow]
    statuses = [answer.status for answer in answers if answer]
    assert statuses.count(429) >= 10, statuses
    assert statuses.count(408) >= 10, statuses
    for answer in answers:
        check(plain, answer, 408, 429)
    assert {answer.headers.get("retry-after") for answer in answers if answer and answer.status == 429} == {"1"}


def test_clients_that_hang_up_leave_nothing_behind(service: Service) -> None:
    opened = len(psutil.Process(service.process.pid).net_connections())
    for protocol in PROTOCOLS.values():
        for _ in range(20):
            raw_http.hang_up(service.address, protocol.path, Path(__file__).read_bytes()[:1000])
    deadline = time.monotonic() + 30
    while len(psutil.Process(service.process.pid).net_connections()) > opened + 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(psutil.Process(service.process.pid).net_connections()) <= opened + 2
