"""Watch the HTTP service through a promotion: send it example rows, and note how it takes the new champion up."""

import http.client
import itertools
import json
import threading
import time
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from pipelines.core.errors import UsageError, one_line
from pipelines.serving import certificates
from pipelines.tracking import registry
from pipelines.tracking.ledger_events import CHAMPION

SECONDS = 120.0  # to wait for the first answer of the new version
AFTER_SECONDS = 2.0  # to go on after it
PROBES, PAUSE = 2, 0.01  # clients that send rows, and the seconds between two requests of one
LOOK_SECONDS = 0.5  # between two looks at the model's page
# of a prediction: they say how sure a model is, or who signed it, and not what the answer is
SURENESS = ("score", "scores", "entity_scores", "no_answer", "receipt")
ERRORS = (OSError, http.client.HTTPException, ValueError, KeyError, TypeError)  # of a service, or of what is none


class Service(NamedTuple):
    """The address of a service, such as http://127.0.0.1:8000, and an API key; empty without one."""

    address: str
    key: str = ""

    def require(self) -> None:
        """Raise UsageError if the address is none."""
        url = urlsplit(self.address)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise UsageError(f"service: {self.address[:60]!r} is no address such as http://127.0.0.1:8000")


class Client:
    """One connection that is kept alive; a `with` block closes it."""

    def __init__(self, service: Service, seconds: float = 30) -> None:
        url = urlsplit(service.address)
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        self.connection = kind(url.netloc.rpartition("@")[2], timeout=seconds)
        self.path = url.path.rstrip("/")
        self.headers = {"Content-Type": "application/json"}
        if service.key:
            self.headers["Authorization"] = f"Bearer {service.key}"

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the JSON of the answer. Raises one of ERRORS."""
        try:
            self.connection.request(method, self.path + path, json.dumps(body) if body else None, self.headers)
            answer = self.connection.getresponse()
            return answer.status, json.loads(answer.read())
        except BaseException:
            self.connection.close()  # the next request opens another
            raise


class ServiceProbe:
    """Requests to the service, from the start of the block to its end."""

    def __init__(self, service: Service, target: registry.Version, rows: list[dict[str, Any]]) -> None:
        self.service, self.target, self.rows = service, target, rows
        self.requests = self.failures = 0
        self.longest = 0.0  # seconds of a request
        self.first_answer = 0.0  # of the target, on the monotonic clock
        self.answers: dict[int, dict[int, Any]] = {}  # version -> row -> prediction
        self.name = self.why = ""  # of the model in the service; why nothing is seen
        self.replay: dict[str, Any] = {}  # as which share of live answers the target changed, as a canary or a shadow
        self._lock, self._end = threading.Lock(), threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> "ServiceProbe":
        try:
            with Client(self.service) as client:
                status, models = client.ask("GET", "/models")
            if status != 200:
                self.why = f"its status is {status}: {str(models)[:100]}"
                return self
            source = f"{self.target.name}@{CHAMPION}"
            its: dict[str, Any] = next((model for model in models if model["source"] == source), {})
            self.name = str(its.get("name", ""))
            self.why = "" if self.name else f"it serves no {source}"
            self.replay = self._live(its)
        except ERRORS as error:
            self.why = certificates.untrusted(error) or f"no answer ({one_line(error, 100)})"
        if not self.why:
            self._threads = [threading.Thread(target=self._probe, daemon=True) for _ in range(PROBES)]
            for thread in self._threads:
                thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(60)

    def _live(self, model: dict[str, Any]) -> dict[str, Any]:
        """The live share of the target beside this model (schemas.LiveShare), of which there is one with rows."""
        sides = [side for side in (model.get("canary"), model.get("shadow")) if side]
        shares = [side["replay"] for side in sides if side["version"] == self.target.version and side.get("replay")]
        return max(shares, key=lambda live: int(live["rows"]), default={})

    def _probe(self) -> None:
        with Client(self.service) as client:
            for number in itertools.cycle(range(len(self.rows))):
                if self._end.is_set():
                    break
                self._send(client, number)
                time.sleep(PAUSE)

    def _send(self, client: Client, number: int) -> None:
        """Send a row, and note its answer."""
        start = time.monotonic()
        version, prediction = 0, None
        try:
            status, answer = client.ask("POST", f"/predict/{quote(self.name)}", {"rows": [self.rows[number]]})
            if status == 200:
                version, prediction = int(answer["version"]), answer["predictions"][0]
        except ERRORS:
            pass
        self._count(number, version, prediction, start)

    def _count(self, number: int, version: int, prediction: Any, start: float) -> None:
        """Note the answer to a row; version 0 is a failure."""
        now = time.monotonic()
        with self._lock:
            self.requests += 1
            self.failures += not version
            self.longest = max(self.longest, now - start)
            if version:
                self.answers.setdefault(version, {})[number] = prediction
            if version == self.target.version and not self.first_answer:
                self.first_answer = now

    def seen(self) -> dict[str, Any]:
        """Wait until the target answers; what was seen from the start of the block, with a sentence as `summary`."""
        began = time.monotonic()
        refresh = threading.Thread(target=self._refresh, daemon=True)
        if not self.why:
            refresh.start()
            self._wait(began + SECONDS)
        who = f"the service at {self.service.address}"
        record: dict[str, Any] = {"service": self.service.address, "seen": not self.why}
        live = f"; {self.replay['sentence']}" if self.replay else ""
        record |= {"replay": self.replay} if self.replay else {}
        if self.requests:
            record |= {"requests": self.requests, "failures": self.failures}
            record["longest_stall_ms"] = round(1000 * self.longest, 1)
        numbers = f"{self.requests:,} requests, {self.failures:,} failed, the longest took {1000 * self.longest:.0f} ms"
        if self.why:
            more = f"; {numbers}" if self.requests else ""
            return record | {"summary": f"{self.target} was not seen in {who}: {self.why}{more}{live}"}
        seconds = max(self.first_answer - began, 0.0)
        agreement, summary = self._agreement(), f"{self.target} answered in {who} after {seconds:.1f} s; {numbers}"
        if agreement:
            same, both, other = agreement
            summary += f"; it agrees with version {other} on {same} of {both} example rows"
            record |= {"agreement": same / both, "rows": both, "former": other}
        return record | {"seconds_to_first_answer": round(seconds, 3), "summary": summary + live}

    def _refresh(self) -> None:
        """Ask the service to look at the alias now. Without a key of the scope admin it looks by itself, later."""
        try:
            with Client(self.service, SECONDS) as client:
                client.ask("POST", f"/models/{quote(self.name)}/refresh")
        except ERRORS:
            return

    def _wait(self, until: float) -> None:
        """Wait until the target has answered for AFTER_SECONDS, or set `why` it does not."""
        with Client(self.service) as client:
            while not (self.first_answer and time.monotonic() > self.first_answer + AFTER_SECONDS):
                if not self.first_answer and time.monotonic() > until:
                    self.why = f"no answer of it within {SECONDS:g} s"
                elif reason := self._refusal(client):
                    self.why = f"it was refused, {reason}"
                if self.why:
                    return
                time.sleep(LOOK_SECONDS)

    def _refusal(self, client: Client) -> str:
        """The service's reason to refuse the target; empty if it does not."""
        try:
            _, model = client.ask("GET", f"/models/{quote(self.name)}")
            refused = model["refused"]
            return str(refused["reason"])[:300] if refused and refused["version"] == self.target.version else ""
        except ERRORS:
            return ""

    def _agreement(self) -> tuple[int, int, int] | None:
        """The rows that the target and the version before answer alike, the rows that both answered, that version."""
        now = self.answers.get(self.target.version, {})
        for version, before in self.answers.items():
            if version != self.target.version and (both := before.keys() & now.keys()):
                return sum(alike(before[row], now[row]) for row in both), len(both), version
        return None


def _without_numbers(prediction: dict[str, Any]) -> dict[str, Any]:
    """The texts and places of a prediction; of a question without an answer, not those of what it rejected."""
    no_answer = prediction.get("answer") == ""
    left_out = {*SURENESS, *(("start", "end", "best") if no_answer else ())}
    return {name: value for name, value in prediction.items() if not isinstance(value, float) and name not in left_out}


def alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether two predictions say the same: equal texts and places, or numbers where there are none of these."""
    first, second = _without_numbers(one), _without_numbers(other)
    if first or second:
        return first == second
    return all(abs(value - other.get(name, 0)) <= 0.01 * max(1, abs(value)) for name, value in one.items())
