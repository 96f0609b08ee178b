"""Send requests to an HTTP service, in a closed loop or at a rate, and print how it answered as JSON.

    python benchmarks/load.py ADDRESS PATH BODIES CLIENTS SECONDS [RATE]

BODIES is a file with one JSON body a line. In a closed loop each client sends its next request after its answer. With
RATE, requests are due at random times (Poisson), on as many connections as they need; latency counts from the time that
a request was due, so a service that stalls cannot hide it (Tene, "coordinated omission"). `late` is how long after that
time 99 in 100 requests were sent; where it is long, this generator was too slow, and the latencies are its own.
"""

import asyncio
import json
import random
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import uvloop


class Connection(asyncio.Protocol):
    """One keep-alive connection; answers have a Content-Length."""

    def __init__(self) -> None:
        self.data, self.answer = b"", asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.data += data
        head, end, body = self.data.partition(b"\r\n\r\n")
        if end:
            low = head.lower()
            at = low.find(b"content-length:")
            length = int(low[at + 15 :].split(b"\r\n", 1)[0])
            if len(body) >= length and not self.answer.done():
                self.data = b""
                self.answer.set_result((int(head[9:12]), low))

    def connection_lost(self, error: Exception | None) -> None:
        if not self.answer.done():
            self.answer.set_result((0, b""))

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """The status and the head of the answer; 0 if the connection was lost."""
        self.answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self.answer


class Load:
    """Requests for one service, and what became of them."""

    def __init__(self, address: str, path: str, bodies: list[bytes]) -> None:
        url = urlsplit(address)
        self.host, self.port = url.hostname or "", url.port or 80
        head = f"POST {path} HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Type: application/json\r\nContent-Length: "
        self.requests = [head.encode() + f"{len(body)}\r\n\r\n".encode() + body for body in bodies]
        self.seconds: list[float] = []  # of answered requests
        self.refused: list[float] = []  # the seconds of refusals
        self.late: list[float] = []
        self.statuses: dict[int, int] = {}
        self.idle: list[Connection] = []

    async def connected(self) -> Connection:
        while self.idle:
            if not (connection := self.idle.pop()).transport.is_closing():  # servers close idle connections
                return connection
        _, connection = await asyncio.get_running_loop().create_connection(Connection, self.host, self.port)
        return connection

    async def one(self, due: float, request: bytes) -> None:
        try:
            connection = await self.connected()
        except OSError:  # the service takes no more connections
            self.statuses[0] = self.statuses.get(0, 0) + 1
            return
        sent = time.perf_counter()
        self.late.append(sent - due)
        status, _ = await connection.ask(request)
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if status == 200:
            self.seconds.append(time.perf_counter() - due)
        elif status:
            self.refused.append(time.perf_counter() - sent)
        if status:
            self.idle.append(connection)

    async def closed(self, clients: int, seconds: float) -> None:
        end = time.perf_counter() + seconds

        async def client(rng: random.Random) -> None:
            while (now := time.perf_counter()) < end:
                await self.one(now, rng.choice(self.requests))

        await asyncio.gather(*(client(random.Random(number)) for number in range(clients)))

    async def open(self, rate: float, seconds: float) -> None:
        rng, start = random.Random(0), time.perf_counter()
        due, sent = start, set()
        while (due := due + rng.expovariate(rate)) < start + seconds:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            task = asyncio.ensure_future(self.one(due, rng.choice(self.requests)))
            sent.add(task)
            task.add_done_callback(sent.discard)
        await asyncio.gather(*sent)


def main() -> None:
    address, path, bodies, clients, seconds, *rate = sys.argv[1:]
    load = Load(address, path, Path(bodies).read_bytes().splitlines())
    start = time.perf_counter()
    uvloop.run(load.open(float(rate[0]), float(seconds)) if rate else load.closed(int(clients), float(seconds)))
    elapsed = time.perf_counter() - start
    measured = {"p50": quantile(load.seconds, 0.5), "p99": quantile(load.seconds, 0.99)}
    measured |= {"refused_p50": quantile(load.refused, 0.5), "late": quantile(load.late, 0.99)}
    print(json.dumps({"per_second": len(load.seconds) / elapsed, **measured, "statuses": load.statuses}))


def quantile(seconds: list[float], share: float) -> float:
    """The number that this share of the numbers does not exceed; 0 without numbers."""
    ordered = sorted(seconds) or [0.0]
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


if __name__ == "__main__":
    main()
