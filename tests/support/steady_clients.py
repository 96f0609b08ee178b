"""Clients that ask without a pause, while a test kills what answers them."""

import http.client
import json
import threading
import time
from collections import Counter

CLIENTS, ROWS = 4, 64
LOST = {"RemoteDisconnected", "ConnectionResetError", "IncompleteRead", "502"}


def body(text: str) -> bytes:
    """A request of ROWS rows with the same text."""
    return json.dumps({"rows": [{"text": text}] * ROWS}).encode()


class Clients:
    """Clients that ask again as soon as they have an answer, each on one connection, until the block ends."""

    def __init__(self, port: int, body: bytes) -> None:
        self.port, self.body = port, body
        self.results: Counter[str] = Counter()  # statuses, and the names of errors
        self._end, self._lock = threading.Event(), threading.Lock()
        self._threads = [threading.Thread(target=self._ask) for _ in range(CLIENTS)]

    def __enter__(self) -> "Clients":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        while not self._end.is_set():
            try:
                connection.request("POST", "/predict", self.body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                predictions = json.loads(answer.read()).get("predictions", ())
                result = f"{answer.status}" if answer.status != 200 or len(predictions) == ROWS else "cut"
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                result = type(error).__name__
            with self._lock:
                self.results[result] += 1
        connection.close()

    def require_few_failures(self) -> None:
        """Fail unless a client had to send two requests again at most: lost connections, or 502."""
        failures = {result: count for result, count in self.results.items() if result != "200"}
        assert not failures.keys() - LOST, failures
        assert sum(failures.values()) <= 2 * CLIENTS, failures

    def wait_for(self, more: int) -> None:
        """Wait until so many more requests were answered."""
        wanted, deadline = self.results["200"] + more, time.monotonic() + 60
        while self.results["200"] < wanted and time.monotonic() < deadline:
            time.sleep(0.01)
        assert self.results["200"] >= wanted, self.results
