"""Run rows of concurrent requests together through one predictor, in threads beside the event loop."""

import asyncio
import threading
import time

import numpy as np
import pyarrow as pa

from pipelines.core.errors import InputError, RowError
from pipelines.core.schema import INPUTS
from pipelines.inference.predictor import Predictor
from pipelines.serving.admission import FairQueue, Part, Predicted, Speed
from pipelines.serving.model_threads import ModelThreads

BATCH_SECONDS = 0.025  # the time that one batch should take; it bounds how long a new request waits for a worker
TRIED_ROWS = 16  # rows of the batch that is timed when a model is opened, beside one row alone
SEQUENCE = 16  # the cost of a sequence besides its characters
ENCODED = 50  # characters that are encoded in the time that the model takes for one
TRIES = 3  # predictions of each batch that is timed
LEAST_BUDGET, MOST_BUDGET = 64, 4096  # the cost of one batch

# a text that the first batches are timed with; models of kind fill_mask need a [MASK], which is plain text for others
TYPICAL = "新型スマートフォンの[MASK]開始、五色展開で登場"

Prediction = dict[str, object]


class ModelError(RuntimeError):
    """The model returns no numbers."""


class RowBatcher:
    """A queue in front of a predictor, and workers that empty it.

    An answer has the same bits in every batch (pipelines.measurement.row_exactness), so requests may share one.
    """

    def __init__(self, predictor: Predictor, threads: ModelThreads, parallel: Predictor | None = None) -> None:
        """`parallel` is the same model with more threads: it runs a batch that begins while no other runs or waits."""
        self.predictor, self.threads = predictor, threads
        self.parallel = parallel or predictor
        self.speed = Speed(threads.count)
        one, several = self._timed(1), self._timed(TRIED_ROWS)
        self.queue = FairQueue(self.speed.add(*several))
        self.budget = budget(one, several)
        self.rows = self.batches = 0  # answered so far
        self.seconds = 0.0  # of all workers in batches
        self._idle = threads.count
        self._encoding = threading.Lock()  # MeCab's tagger is not made for several threads
        self._running: set[asyncio.Task[None]] = set()

    async def predict(self, rows: pa.RecordBatch, key: str = "") -> Predicted:
        """The predictions for checked rows (`predictor.inputs`), in their order.

        Raises BusyError if too much is waiting. Cancelling this coroutine frees the places of its rows.
        """
        self.queue.admit(key)
        loop = asyncio.get_running_loop()
        parts, costs = self._parts(rows)
        answers: list[asyncio.Future[Predicted]] = [loop.create_future() for _ in parts]
        self.queue.put(parts, costs, answers, key)
        for _ in range(min(self._idle, len(parts))):
            self._idle -= 1
            worker = loop.create_task(self._work())
            self._running.add(worker)  # the loop itself keeps weak references only
            worker.add_done_callback(self._running.discard)
        try:
            if len(answers) == 1:
                return await answers[0]
            return _joined(await asyncio.gather(*answers))
        except RowError as error:  # it counts rows from the first one of its part
            failed = next(number for number, answer in enumerate(answers) if _failed_with(answer) is error)
            raise error.after(sum(part.num_rows for part in parts[:failed])) from None
        finally:
            for answer in answers:
                answer.cancel()

    def _parts(self, rows: pa.RecordBatch) -> tuple[list[pa.RecordBatch], list[int]]:
        """`rows` in parts that each fit in a batch, or have one row; and the cost of each part."""
        of_rows = costs(rows, self.predictor)
        if sum(of_rows) <= self.budget or len(of_rows) == 1:
            return [rows], [sum(of_rows)]
        parts, sums, first, total = [], [], 0, 0
        for number, cost in enumerate(of_rows):
            if total and total + cost > self.budget:
                parts.append(rows.slice(first, number - first))
                sums.append(total)
                first, total = number, 0
            total += cost
        return [*parts, rows.slice(first)], [*sums, total]

    async def _work(self) -> None:
        """Run batches until the queue is empty."""
        try:
            while parts := self.queue.take(self.budget):
                start = time.perf_counter()
                predictor = self.predictor if self.threads.running or self.queue else self.parallel
                try:
                    predicted, tokens = await self._run(parts, predictor)
                except Exception as error:  # of any type: it goes to the request, and the worker goes on
                    await self._each_alone(parts, error)
                    continue
                self._count(parts, time.perf_counter() - start, predictor)
                _note(parts, tokens, start)
                _deliver(parts, predicted)
        finally:
            self._idle += 1

    async def _run(self, parts: list[Part], predictor: Predictor) -> tuple[Predicted, list[int]]:
        """The predictions for the rows of several parts, and the tokens of each part, made in a thread."""
        self.threads.running += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self.threads, self._of_parts, parts, predictor)
        finally:
            self.threads.running -= 1

    def _count(self, parts: list[Part], seconds: float, predictor: Predictor) -> None:
        """Note a batch that `predictor` has run in `seconds`."""
        self.rows += sum(part.rows.num_rows for part in parts)
        self.batches += 1
        self.seconds += seconds
        if predictor is self.predictor:  # the other one says nothing of a queue's speed, as it never has one
            self.queue.rate = self.speed.add(sum(part.cost for part in parts), seconds)

    async def _each_alone(self, parts: list[Part], error: Exception) -> None:
        """Run parts one by one after their batch failed, so that one row fails no other request."""
        for part in parts:
            failure = error
            if len(parts) > 1:
                try:
                    start = time.perf_counter()
                    predicted, tokens = await self._run([part], self.predictor)
                    self._count([part], time.perf_counter() - start, self.predictor)
                    _note([part], tokens, start)
                    _deliver([part], predicted)
                    continue
                except Exception as its_error:
                    failure = its_error
            if not part.answer.done():
                part.answer.set_exception(failure)

    def predictions(self, batches: list[pa.RecordBatch]) -> list[Prediction]:
        """The predictions for checked rows in several parts, without the queue.

        Raises ModelError if the model returns NaN or infinity.
        """
        return self._predicted(batches, self.predictor)[0].predictions

    def _of_parts(self, parts: list[Part], predictor: Predictor) -> tuple[Predicted, list[int]]:
        """The predictions for the rows of several parts, and the tokens of each part."""
        predicted, encoded = self._predicted([part.rows for part in parts], predictor)
        return predicted, _tokens(parts, encoded)

    def _predicted(self, batches: list[pa.RecordBatch], predictor: Predictor) -> tuple[Predicted, pa.RecordBatch]:
        """The predictions for rows in several parts, and their sequences."""
        rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        with self._encoding:
            encoded, cut = self.predictor.encode_and_mark(rows)
        try:
            (outputs,) = predictor.forward([encoded])
        except InputError as error:  # its weights are damaged, which is no fault of the request
            raise ModelError(str(error)) from error
        return Predicted(self.predictor.decode(rows, encoded, outputs).to_pylist(), cut), encoded

    def _timed(self, count: int) -> tuple[int, float]:
        """The cost of `count` rows of a typical length, and the seconds of a batch of them; also warms the model up."""
        task = self.predictor.task
        row = {name: [TYPICAL] * len(task.labels) if name == "choices" else TYPICAL for name in INPUTS[task.kind]}
        rows = pa.RecordBatch.from_pylist([row] * count)
        seconds = []
        for _ in range(TRIES):
            start = time.perf_counter()
            self.predictor.predict(rows)
            seconds.append(time.perf_counter() - start)
        return sum(costs(rows, self.predictor)), min(seconds)


def budget(one: tuple[int, float], several: tuple[int, float]) -> int:
    """The cost of a batch that takes BATCH_SECONDS, given cost and seconds of a row alone and of several rows.

    It is not measured again while requests are answered: on a busy machine smaller batches would follow, whose constant
    part makes the model slower still. A batch takes at least three times its constant part.
    """
    per_cost = max((several[1] - one[1]) / (several[0] - one[0]), 1e-9)
    constant = max(one[1] - per_cost * one[0], 0.0)
    return int(min(max(max(BATCH_SECONDS - constant, 2 * constant) / per_cost, LEAST_BUDGET), MOST_BUDGET))


def costs(rows: pa.RecordBatch, predictor: Predictor) -> list[int]:
    """The cost of each row: about the characters that the model reads; all of them are encoded, which costs less."""
    whole = predictor.task.kind in ("span", "tagging")  # these read long texts in parts, the others cut them
    longest = MOST_BUDGET * 100 if whole else 2 * predictor.max_length  # a token has a character or two
    totals = [0] * rows.num_rows
    for column in rows.columns:
        for number, value in enumerate(column.to_pylist()):
            for text in value if isinstance(value, list) else [value]:
                totals[number] += min(len(text), longest) + len(text) // ENCODED + SEQUENCE
    return totals


def _tokens(parts: list[Part], encoded: pa.RecordBatch) -> list[int]:
    """The tokens of each part; none are counted if no request asks for them."""
    if not any(part.work for part in parts):
        return []
    ids = encoded.column("input_ids")
    if len(parts) == 1:
        return [len(ids.flatten().flatten() if pa.types.is_list(ids.type.value_type) else ids.flatten())]
    ends = np.cumsum([part.rows.num_rows for part in parts])
    part_of = np.searchsorted(ends, np.array(encoded.column("id").to_pylist(), np.int64), side="right")
    lengths = [sum(map(len, each)) if each and isinstance(each[0], list) else len(each) for each in ids.to_pylist()]
    return np.bincount(part_of, lengths, len(parts)).astype(int).tolist()


def _note(parts: list[Part], tokens: list[int], began: float) -> None:
    """Note a batch in the records of its requests."""
    ended = time.perf_counter()
    for part, count in zip(parts, tokens, strict=False):  # no counts if there are no records
        if part.work:
            part.work.run(count, began, ended)


def _failed_with(answer: asyncio.Future[Predicted]) -> BaseException | None:
    return answer.exception() if answer.done() and not answer.cancelled() else None


def _joined(parts: list[Predicted]) -> Predicted:
    predictions = [prediction for part in parts for prediction in part.predictions]
    return Predicted(predictions, np.concatenate([part.cut for part in parts]))


def _deliver(parts: list[Part], predicted: Predicted) -> None:
    first = 0
    for part in parts:
        last = first + part.rows.num_rows
        if not part.answer.done():  # a client that hung up has cancelled it
            part.answer.set_result(Predicted(predicted.predictions[first:last], predicted.cut[first:last]))
        first = last
