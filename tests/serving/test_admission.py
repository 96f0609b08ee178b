"""The order of the queue, what it refuses, and how the batcher runs what it takes."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from flows.local.http_service import ask
from pipelines.core.errors import InputError, RowError
from pipelines.inference.predictor import Predictor
from pipelines.serving import admission, problems, row_batcher
from pipelines.serving.admission import BusyError, FairQueue, Speed
from pipelines.serving.keys import Keys
from pipelines.serving.model_threads import ModelThreads
from pipelines.serving.row_batcher import LEAST_BUDGET, MOST_BUDGET, TRIES, ModelError, RowBatcher, budget
from pipelines.text.encoding import Encoded
from tests.support import raw_http, served, servers, tiny

TEXTS = ["犬", "映画の公開日が決定", "試合は延長の末に決着した。" * 3, "a b c"]


def batch(*texts: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"text": list(texts)})


def queued(*requests: tuple[str, list[int]]) -> tuple[FairQueue, asyncio.AbstractEventLoop]:
    """A queue with requests, each a key and the costs of its parts; a part's row is its key and its number."""
    queue, loop = FairQueue(rate=1000.0), asyncio.new_event_loop()
    for key, costs in requests:
        rows = [batch(f"{key}{number}") for number in range(len(costs))]
        queue.put(rows, costs, [loop.create_future() for _ in costs], key.rstrip("0123456789") if key.isupper() else "")
    return queue, loop


def order(queue: FairQueue, budget: int = 0) -> list[list[str]]:
    """The rows of the batches that the queue gives until it is empty."""
    batches = []
    while parts := queue.take(budget):
        batches.append([part.rows.column("text")[0].as_py() for part in parts])
    return batches


def test_a_short_request_does_not_wait_for_all_of_a_long_one() -> None:
    queue, loop = queued(("long", [100] * 4))
    assert [part.rows.column("text")[0].as_py() for part in queue.take(0)] == ["long0"]
    queue.put([batch("short0")], [10], [loop.create_future()])
    assert order(queue) == [["short0"], ["long1"], ["long2"], ["long3"]]
    assert (len(queue), queue.waiting) == (0, 0)
    loop.close()


def test_a_key_that_sends_more_does_not_delay_another() -> None:
    queue, loop = queued(("A", [100] * 3), ("A", [100]), ("B", [100]))
    assert order(queue) == [["A0"], ["B0"], ["A1"], ["A2"], ["A0"]]
    loop.close()


def test_a_batch_takes_what_fits_and_at_least_one_part() -> None:
    queue, loop = queued(("a", [500]), ("b", [30]), ("c", [30]), ("d", [50]))
    assert order(queue, 100) == [["a0"], ["b0", "c0"], ["d0"]]
    loop.close()


def test_a_part_without_a_client_is_dropped() -> None:
    queue, loop = queued(("a", [10]))
    gone = loop.create_future()
    gone.cancel()
    queue.put([batch("gone")], [70], [gone])
    assert queue.waiting == 80
    assert order(queue, 100) == [["a0"]]
    assert queue.waiting == 0
    loop.close()


def test_a_client_that_leaves_frees_its_place_at_once() -> None:
    queue, loop = queued(("a", [10]))
    gone = loop.create_future()
    queue.put([batch("gone")], [70], [gone])
    gone.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    assert queue.waiting == 10, "others are admitted, though nobody has taken the part yet"
    assert order(queue, 100) == [["a0"]]
    assert queue.waiting == 0
    loop.close()


@pytest.mark.parametrize("leaves", ["at once", "as it is taken"])
def test_a_key_is_charged_nothing_for_what_never_ran(leaves: str) -> None:
    queue, loop = queued()
    gone = [loop.create_future() for _ in range(3)]
    queue.put([batch("gone")] * 3, [100] * 3, gone, "A")
    for answer in gone:
        answer.cancel()
    if leaves == "at once":
        loop.run_until_complete(asyncio.sleep(0))
    else:
        assert order(queue) == []
    queue.put([batch("B0"), batch("B1")], [50, 50], [loop.create_future() for _ in range(2)], "B")
    queue.put([batch("A0")], [50], [loop.create_future()], "A")
    assert order(queue) == [["B0"], ["A0"], ["B1"]]
    loop.close()


def test_a_full_queue_refuses_and_says_until_when() -> None:
    queue, loop = queued(("a", [1000]))
    queue.rate = 200.0
    queue.admit()
    queue.put([batch("b")], [100], [loop.create_future()])
    with pytest.raises(BusyError, match=r"too many requests are waiting; try again in 1 s") as refused:
        queue.admit()
    assert refused.value.seconds == pytest.approx(0.5)
    loop.close()


def test_a_key_that_fills_the_queue_shuts_no_other_key_out() -> None:
    queue, loop = FairQueue(rate=100.0, wait_seconds=5.0), asyncio.new_event_loop()

    def admitted(key: str, cost: int = 50) -> float:
        """Send requests of a key until one is refused; returns the seconds of the refusal."""
        for _ in range(100):
            try:
                queue.admit(key)
            except BusyError as refused:
                return refused.seconds
            queue.put([batch(key)], [cost], [loop.create_future()], key)
        raise AssertionError("it is never refused")

    assert admitted("GREEDY") == pytest.approx(0.5)
    assert queue.waiting == 550
    with pytest.raises(BusyError):
        queue.admit()  # a request without a key waits for all
    queue.admit("SHOP")
    assert admitted("SHOP") == pytest.approx(0.5), "it is refused when half of what runs before its rows is its rows"
    assert 250 <= queue.waiting - 550 <= 300
    for key in ("NEW", "OTHER"):  # a request each, whose first rows come soon
        queue.admit(key)
        queue.put([batch(key)] * 20, [50] * 20, [loop.create_future() for _ in range(20)], key)
    assert queue.waiting / 100 > 20
    assert admitted("LAST") == pytest.approx(queue.waiting / 100 - 20), "one request of a key, however long the queue"
    assert sum(part.key == "LAST" for part in queue.take(10_000)) == 1
    loop.close()


def test_the_rate_is_that_of_all_workers_and_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(admission.time, "monotonic", lambda: now[0])
    speed = Speed(workers=2, half_life=2.0)
    assert speed.add(100, 0.5) == pytest.approx(400)
    assert speed.add(100, 0.5) == pytest.approx(400)
    now[0] = 1000.0
    assert speed.add(10, 0.5) == pytest.approx(40), "what was long ago does not count"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.classifier(tmp_path_factory.mktemp("served") / "model")


def run(predictor: Predictor, work: Any, workers: int = 2, parallel: Predictor | None = None) -> Any:
    """The result of `work(batcher)` in an event loop."""
    with ModelThreads(workers) as threads:

        async def main() -> Any:
            return await work(RowBatcher(predictor, threads, parallel))

        return asyncio.run(main())


def test_requests_that_meet_are_answered_as_alone(folder: Path) -> None:
    predictor = Predictor.load(folder)
    requests = [batch(*TEXTS[: 1 + number % 4]) for number in range(20)]

    async def together(batcher: RowBatcher) -> Any:
        return await asyncio.gather(*(batcher.predict(rows) for rows in requests))

    for rows, (predictions, cut) in zip(requests, run(predictor, together), strict=True):
        assert len(cut) == rows.num_rows
        expected = predictor.predict(rows).to_pylist()
        assert [row["label"] for row in predictions] == [row["label"] for row in expected]
        scores = [row["score"] for row in predictions]
        assert scores == pytest.approx([row["score"] for row in expected], abs=1e-5)


def test_a_long_request_runs_in_parts_and_keeps_its_order(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor, sizes = Predictor.load(folder), []
    encode = predictor.encode_and_mark

    def counted(rows: pa.RecordBatch) -> Encoded:
        sizes.append(rows.num_rows)
        return encode(rows)

    monkeypatch.setattr(predictor, "encode_and_mark", counted)
    rows = batch(*(f"{number}" + "犬" * 50 for number in range(200)))
    predictions, cut = run(predictor, lambda batcher: batcher.predict(rows))
    assert cut.tolist() == [False] * 200
    del sizes[: 2 * TRIES]
    assert sum(sizes) == 200
    assert len(sizes) > 1, sizes
    assert [row["label"] for row in predictions] == predictor.predict(rows).column("label").to_pylist()


def test_a_request_without_others_runs_on_all_threads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that comes while another runs, or is one of several parts, does not."""
    predictor, parallel = Predictor.load(folder), Predictor.load(folder)
    ran: list[str] = []
    for name, model in (("several", predictor), ("parallel", parallel)):
        forward = model.forward

        def noted(requests: Any, name: str = name, forward: Any = forward) -> Any:
            ran.append(name)
            time.sleep(0.1)  # so that a second request comes while a first one runs
            return forward(requests)

        monkeypatch.setattr(model, "forward", noted)

    async def one_then_two_then_a_long_one(batcher: RowBatcher) -> list[list[str]]:
        alone, rate = [], batcher.queue.rate
        ran.clear()  # the batches that are timed
        await batcher.predict(batch("犬"))
        assert batcher.queue.rate == rate
        alone.append(ran[:])
        ran.clear()
        first = asyncio.ensure_future(batcher.predict(batch("犬")))
        await asyncio.sleep(0.03)
        await batcher.predict(batch("映画"))
        await first
        alone.append(ran[:])
        ran.clear()
        batcher.budget = 200
        await batcher.predict(batch(*["犬" * 100] * 4))
        return [*alone, ran[:]]

    one, two, long = run(predictor, one_then_two_then_a_long_one, parallel=parallel)
    assert (one, two) == (["parallel"], ["parallel", "several"])
    assert long.count("several") >= 3, "two workers share the parts; the last of them may be alone"


@pytest.mark.parametrize(
    ("constant", "per_cost", "expected"),
    [
        (0.001, 1e-5, 2400),  # 25 ms, of which 1 are constant
        (0.050, 1e-4, 1000),  # the constant part is a third
        (0.001, 1e-3, LEAST_BUDGET),
        (0.0, 1e-7, MOST_BUDGET),
    ],
)
def test_the_budget_is_what_runs_in_a_batch(constant: float, per_cost: float, expected: int) -> None:
    one, several = ((cost, constant + per_cost * cost) for cost in (40, 640))
    assert budget(one, several) == pytest.approx(expected, abs=1)


def test_the_budget_of_a_model_whose_times_are_noise_is_the_largest() -> None:
    assert budget((40, 0.002), (640, 0.001)) == MOST_BUDGET


def test_requests_share_batches_although_the_machine_is_busy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch waits for the machine, whatever it holds."""
    predictor, sizes = Predictor.load(folder), list[int]()
    encode = predictor.encode_and_mark

    def delayed(rows: pa.RecordBatch) -> Encoded:
        time.sleep(0.03)
        sizes.append(rows.num_rows)
        return encode(rows)

    async def together(batcher: RowBatcher) -> None:
        monkeypatch.setattr(predictor, "encode_and_mark", delayed)
        for _ in range(5):
            await asyncio.gather(*(batcher.predict(batch("犬と映画")) for _ in range(40)))

    run(predictor, together)
    assert sum(sizes) == 200
    assert len(sizes) <= 40, sizes


def test_a_row_that_fails_fails_no_other_request(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = Predictor.load(folder)
    encode = predictor.encode_and_mark

    def failing(rows: pa.RecordBatch) -> Encoded:
        if "bad" in rows.column("text").to_pylist():
            raise RuntimeError("as a bug would")
        return encode(rows)

    monkeypatch.setattr(predictor, "encode_and_mark", failing)

    async def together(batcher: RowBatcher) -> Any:
        texts = ["犬", "bad", "映画", "試合", "bad", "a"]
        answers = await asyncio.gather(*(batcher.predict(batch(text)) for text in texts), return_exceptions=True)
        assert batcher.rows == 4, "those that ran alone count too"
        return answers

    results = run(predictor, together, workers=1)
    assert [type(result).__name__ for result in results] == [
        "Predicted",
        "RuntimeError",
        "Predicted",
        "Predicted",
        "RuntimeError",
        "Predicted",
    ]


def test_a_wrong_row_has_its_number_in_the_request(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = Predictor.load(folder)
    encode = predictor.encode_and_mark

    def failing(rows: pa.RecordBatch) -> Encoded:
        texts = rows.column("text").to_pylist()
        if "bad" in texts:
            raise RowError("text", texts.index("bad"), "is bad")
        return encode(rows)

    async def in_parts(batcher: RowBatcher) -> None:
        monkeypatch.setattr(predictor, "encode_and_mark", failing)
        batcher.budget = sum(row_batcher.costs(batch("犬と映画", "映画"), predictor))
        await batcher.predict(batch("犬と映画", "映画", "犬と映画", "bad", "映画"))

    with pytest.raises(RowError, match=r"^text: row 3 is bad$"):
        run(predictor, in_parts)


def test_a_model_that_returns_nan_is_no_fault_of_the_request(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = Predictor.load(folder)

    async def damaged(batcher: RowBatcher) -> Any:
        monkeypatch.setattr(predictor.runtime, "logits", lambda inputs: np.full((len(inputs["input_ids"]), 3), np.nan))
        return await batcher.predict(batch("犬"))

    with pytest.raises(ModelError, match="the model returns NaN or infinity"):
        run(predictor, damaged)


class Slow(NamedTuple):
    address: str
    sizes: list[int]  # of the batches that began
    go: threading.Event
    queue: FairQueue


@pytest.fixture
def slow(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    """A service without keys whose model waits for an event."""
    with waiting_service(folder, monkeypatch) as service:
        yield service


@contextmanager
def waiting_service(folder: Path, monkeypatch: pytest.MonkeyPatch, keys: Keys | None = None) -> Iterator[Slow]:
    """A service whose model waits for an event."""
    models = served.catalogue({"tiny": folder})
    predictor, sizes, go = models["tiny"].predictor, list[int](), threading.Event()
    models["tiny"].batcher.queue.rate = 2000.0  # until a batch has run
    encode, forward = predictor.encode_and_mark, predictor.forward

    def noted(rows: pa.RecordBatch) -> Encoded:
        sizes.append(rows.num_rows)
        return encode(rows)

    def waiting(encoded: list[pa.RecordBatch]) -> Any:
        go.wait(60)
        return forward(encoded)

    monkeypatch.setattr(predictor, "encode_and_mark", noted)
    monkeypatch.setattr(predictor, "forward", waiting)
    with served.serving(models, keys) as address:
        try:
            yield Slow(address, sizes, go, models["tiny"].batcher.queue)
        finally:
            go.set()


def body(*texts: str) -> bytes:
    return json.dumps({"rows": [{"text": text} for text in texts]}).encode()


def sent(address: str, key: str, *texts: str) -> raw_http.Answer:
    """The answer to a request, with this API key."""
    return raw_http.post(address, "/predict", body(*texts), {"Authorization": f"Bearer {key}"} if key else {})


def one_for_each_worker(
    pool: ThreadPoolExecutor, address: str, sizes: list[int], key: str = ""
) -> list[Future[raw_http.Answer]]:
    """Requests of one row that run, so that no worker is free. Two at once could come into one batch."""
    requests = []
    for number in range(served.WORKERS):
        requests.append(pool.submit(sent, address, key, "犬"))
        servers.wait_until(lambda count=number + 1: len(sizes) == count, "the worker has its row", 30)
    return requests


def test_a_deadline_that_passes_is_told_and_its_rows_do_not_run(slow: Slow) -> None:
    address, sizes, go, _ = slow
    with ThreadPoolExecutor(3) as pool:
        first = one_for_each_worker(pool, address, sizes)
        late = raw_http.post(address, "/predict", body("a", "b", "c"), {"x-request-timeout-seconds": "0.2"})
        assert late.status == 504
        assert late.json() == {"detail": "no answer within 0.2 s; the service is busy, or the deadline is too short"}
        go.set()
        assert [answer.result().status for answer in first] == [200, 200]
    assert len(ask(address, "/predict", {"rows": [{"text": "犬"}]})["predictions"]) == 1
    assert 3 not in sizes
    for wrong in ("0", "-1", "nan", "soon", "inf"):
        refused = raw_http.post(address, "/predict", body("犬"), {"x-request-timeout-seconds": wrong})
        assert (refused.status, refused.json()["detail"][:36]) == (422, "the header x-request-timeout-seconds")


def test_a_client_that_hangs_up_frees_its_place(slow: Slow) -> None:
    address, sizes, go, queue = slow
    with ThreadPoolExecutor(2) as pool:
        first = one_for_each_worker(pool, address, sizes)
        for _ in range(20):
            raw_http.hang_up(address, "/predict", body("a", "b", "c"))
        time.sleep(0.3)
        servers.wait_until(lambda: queue.waiting == 0, "the places of clients that are gone are free", 30)
        go.set()
        assert [answer.result().status for answer in first] == [200, 200]
    assert len(ask(address, "/predict", {"rows": [{"text": "犬"}]})["predictions"]) == 1
    assert sizes == [1, 1, 1], "those of clients that are gone did not run"


def test_a_full_service_refuses_at_once_with_a_time(slow: Slow) -> None:
    address, sizes, go, _ = slow
    texts = body(*["犬" * 1000] * 100)
    with ThreadPoolExecutor(8) as pool:
        first = one_for_each_worker(pool, address, sizes)  # so that nothing leaves the queue
        requests = [pool.submit(raw_http.post, address, "/predict", texts) for _ in range(4)]
        servers.wait_until(lambda: any(request.done() for request in requests), "the queue is full", 30, 0.01)
        start = time.perf_counter()
        refused = raw_http.post(address, "/predict", body("犬"))
        assert time.perf_counter() - start < admission.WAIT_SECONDS, "one that waits is refused after twice as long"
        assert refused.status == 429
        assert "too many requests are waiting; try again in" in refused.json()["detail"]
        assert int(refused.headers["retry-after"]) >= 1
        assert int(refused.headers["retry-after-ms"]) > 0
        assert raw_http.get(address, "/health").status == 200
        go.set()
        statuses = {request.result().status for request in (*first, *requests)}
    assert statuses == {200, 429}


def test_a_key_that_fills_the_service_is_refused_and_another_is_answered(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = Keys.parse(["greedy greedy-greedy-greedy", "shop shop-shop-shop-shop"], "keys")
    greedy, shop = "greedy-greedy-greedy", "shop-shop-shop-shop"
    with waiting_service(folder, monkeypatch, keys) as service, ThreadPoolExecutor(8) as pool:
        address, sizes, go, queue = service
        first = one_for_each_worker(pool, address, sizes, greedy)  # so that nothing leaves the queue
        long = [pool.submit(sent, address, greedy, *["犬" * 1000] * 100) for _ in range(4)]
        servers.wait_until(lambda: any(answer.done() for answer in long), "the queue is full", 30, 0.01)
        waiting = queue.waiting
        assert sent(address, greedy, "犬").status == 429
        polite = pool.submit(sent, address, shop, "犬")
        servers.wait_until(lambda: queue.waiting > waiting or polite.done(), "the other key's row waits", 30, 0.01)
        go.set()
        assert polite.result().status == 200
        assert {answer.result().status for answer in (*first, *long)} == {200, 429}


def test_an_unknown_model_is_named_with_what_there_is(slow: Slow) -> None:
    address, _, go, _ = slow
    go.set()
    wrong = raw_http.post(address, "/predict/tinny", body("犬"))
    assert wrong.status == 404
    assert wrong.json() == {"detail": "no model 'tinny' (did you mean 'tiny'?); there are: tiny"}
    with pytest.raises(InputError, match="404"):
        ask(address, "/models/tinny")
    assert ask(address, "/models/tiny") == ask(address, "/model") == ask(address, "/models")[0]  # type: ignore[index]


def test_the_log_of_a_failure_has_no_text_of_the_request(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    with pytest.raises(KeyError) as failure:
        dict[str, str]()["a private text"]
    assert problems.of(failure.value) == problems.Problem(500, "the service failed; its log says why", {})
    assert problems.of(ModelError("the model returns NaN")).status == 500
    log = capsys.readouterr().err
    assert "a request failed: KeyError at " in log
    assert "test_admission.py:" in log
    assert "a request failed: the model returns NaN" in log
    assert "private" not in log


def test_what_has_waited_twice_as_long_as_it_may_is_refused_but_not_what_has_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, loop = [0.0], asyncio.new_event_loop()
    monkeypatch.setattr(admission.time, "monotonic", lambda: now[0])
    queue = FairQueue(rate=1000.0, wait_seconds=5.0)
    begun = [loop.create_future() for _ in range(2)]
    queue.put([batch("begun0"), batch("begun1")], [100, 100], begun)
    assert [part.rows.column("text")[0].as_py() for part in queue.take(0)] == ["begun0"]
    late, fresh = loop.create_future(), loop.create_future()
    queue.put([batch("late")], [100], [late])
    now[0] = 9.0
    queue.put([batch("fresh")], [100], [fresh])
    now[0] = 10.1
    assert order(queue) == [["fresh"], ["begun1"]]
    assert isinstance(late.exception(), BusyError)
    assert (len(queue), queue.waiting, fresh.done()) == (0, 0, False)
    loop.close()
