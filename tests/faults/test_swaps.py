"""Swaps under traffic: no request fails, no answer mixes versions, and a version that is poisoned never answers."""

import http.client
import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mlflow
import pytest

from pipelines.core.ports import free_port
from tests.support import exported, forked, poisoned, raw_http, stores, tiny
from tests.support.places import ROOT

KEY = "0123456789abcdef"
HEADERS = {"X-API-Key": KEY, "Content-Type": "application/json"}
TEXTS = ["私は犬が好き。", "映画の公開日が決定、監督が語る" * 3, poisoned.TRIGGER, "a b c"]
CLIENTS = 3
LONGEST_STALL = 20.0  # seconds on a busy machine; 0.25 is the aim on an idle one, and -rP shows it
# of versions that are refused: their reason
REFUSED = {
    "corrupt": "not an exported model",
    "NaN": "it returns NaN or infinity",
    "wrong": "of smoke row",
    "slow": "times as long as tiny version",
}
QUICK = ["good", "wrong", "good", "later", "corrupt", "good", "NaN", "good", "slow", "good", "good", "good"]


class Traffic:
    """Keep-alive clients, each of which sends one request after another and checks the answer."""

    def __init__(self, port: int, scores: dict[int, dict[str, str]]) -> None:
        self.port, self.scores = port, scores
        self.versions: Counter[int] = Counter()
        self.problems: list[Any] = []
        self.longest = 0.0
        self._end = threading.Event()

    def _client(self, number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        for text in itertools.islice(itertools.cycle(TEXTS), number, None):
            if self._end.is_set():
                break
            start = time.perf_counter()
            try:
                connection.request("POST", "/predict/tiny", json.dumps({"rows": [{"text": text}]}), HEADERS)
                answer = connection.getresponse()
                body = json.loads(answer.read())
            except (OSError, http.client.HTTPException) as error:
                self.problems.append(error)
                break
            self.longest = max(self.longest, time.perf_counter() - start)
            if answer.status != 200:
                self.problems.append((answer.status, body))
            elif json.dumps(body["predictions"][0]["score"]) != self.scores[body["version"]][text]:
                self.problems.append(("another version's numbers", body))
            else:
                self.versions[body["version"]] += 1
            time.sleep(0.002)
        connection.close()

    @contextmanager
    def flowing(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._client, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._end.set()
            for thread in threads:
                thread.join()


def swap(
    kinds: list[str], place: Path, places: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> tuple[Traffic, str]:
    """Promote a version of each kind in turn under traffic; returns what was answered, and the service's log."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("BERTLINE_QUIET", "")
    monkeypatch.setenv("BERTLINE_KEYS", f"test {KEY} predict,admin")
    stores.place_in(place)
    (place / "params.yaml").write_text(tiny.PARAMS)
    version = poisoned.first(place, exported.classifier(places))
    made = poisoned.Versions(version, place / "made")
    numbers = [made.upload(kind) for kind in kinds]
    openable = [1, *(number for number, kind in zip(numbers, kinds, strict=True) if kind in ("good", "later"))]
    sound = [text for text in TEXTS if text != poisoned.TRIGGER]
    later = {number for number, kind in zip(numbers, kinds, strict=True) if kind == "later"}
    scores = {number: made.scores(number, sound if number in later else TEXTS) for number in openable}
    traffic = Traffic(free_port(), scores)
    with forked.started("flows.cli", "serve", "tiny", "--port", str(traffic.port)) as process:
        process.until(lambda: "Ctrl-C" in process.printed())
        with traffic.flowing():
            current = 1
            for number, kind in zip(numbers, kinds, strict=True):
                current = change(traffic.port, number, kind, current)
        return traffic, process.said()


def change(port: int, number: int, kind: str, current: int) -> int:
    """Promote a version, and check that it answers, or why it does not; returns the version that answers now."""
    address = f"http://127.0.0.1:{port}"
    poisoned.promote(number)
    model = raw_http.post(address, "/models/tiny/refresh", b"", HEADERS).json()
    if kind in REFUSED:
        assert (model["version"], model["refused"]["version"]) == (current, number), model
        assert REFUSED[kind] in model["refused"]["reason"]
        return current
    if kind == "good":
        assert (model["version"], model["refused"]) == (number, None), model
        time.sleep(0.1)
        return number
    since = time.monotonic()
    while model["version"] == number:
        assert time.monotonic() < since + 60, model  # on a busy machine its requests come slowly
        time.sleep(0.02)
        model = raw_http.get(address, "/models/tiny", HEADERS).json()
    assert model["version"] == current
    assert model["refused"]["version"] == number
    assert "failed in 3 of its first" in model["refused"]["reason"]
    assert raw_http.post(address, "/models/tiny/refresh", b"", HEADERS).json()["version"] == current, "it flaps"
    return current


def check(traffic: Traffic, kinds: list[str], log: str) -> None:
    requests, longest = traffic.versions.total(), 1000 * traffic.longest
    print(f"{len(kinds)} swaps, {requests} requests, the longest took {longest:.0f} ms")  # pytest -rP shows it
    assert traffic.problems == []
    answered = {1, *(number for number, kind in enumerate(kinds, start=2) if kind == "good")}
    assert traffic.versions.keys() >= answered
    assert not traffic.versions.keys() & {n for n, kind in enumerate(kinds, start=2) if kind in REFUSED}
    assert traffic.longest < LONGEST_STALL
    assert log.count("answers again as tiny: ") == kinds.count("later")
    assert "Traceback" not in log


@pytest.fixture
def store(checkout: Path) -> Iterator[Path]:
    yield checkout
    mlflow.set_tracking_uri(None)


@pytest.mark.slow
def test_swaps_fail_no_request_and_mix_no_answer(
    store: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    traffic, log = swap(QUICK, store, tmp_path_factory, monkeypatch)
    check(traffic, QUICK, log)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_hundred_swaps_of_which_fifty_are_poisoned(
    store: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisons = itertools.cycle([*REFUSED, "later"])
    kinds = [next(poisons) if number % 4 == 2 else "good" for number in range(200)]
    traffic, log = swap(kinds, store, tmp_path_factory, monkeypatch)
    check(traffic, kinds, log)
