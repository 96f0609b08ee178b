"""Rows to ids on every core, in the rows' order, with no more in memory than a few batches."""

import multiprocessing
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.core.task import Task
from pipelines.text import encoding, tokenizer

Encoded = tuple[pa.RecordBatch, int]  # ids, and how many rows were cut
WAITING = 2  # batches for each process
_STATE: dict[str, Any] = {}  # a worker process's own


def encoder(vocab: Path, task: Task, max_length: int, **options: Any) -> Any:
    """What encodes a batch: `encode` of the task's kind with its tokenizer."""
    encode = encoding.for_kind(task.kind).encode
    return partial(encode, tokenizer=tokenizer.load(vocab), task=task, max_length=max_length, **options)


def encoded(
    batches: Iterable[pa.RecordBatch], vocab: Path, task: Task, max_length: int, processes: int = 0, **options: Any
) -> Iterator[Encoded]:
    """Each batch's ids; the same ones for any number of processes (0: one for each core)."""
    processes = processes or os.cpu_count() or 1
    if processes == 1 or tokenizer.load(vocab).threaded:
        yield from map(encoder(vocab, task, max_length, **options), batches)
        return
    context = multiprocessing.get_context("fork")  # ready at once; no thread runs here yet
    arguments = (vocab, task, max_length, options)
    with ProcessPoolExecutor(processes, context, _prepare, arguments) as pool:
        pool.submit(int).result()  # fork before Arrow starts threads of its own to read
        waiting: deque = deque()
        for batch in batches:
            waiting.append(pool.submit(_encode, batch))
            if len(waiting) > WAITING * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _prepare(vocab: Path, task: Task, max_length: int, options: dict[str, Any]) -> None:
    _STATE["encode"] = encoder(vocab, task, max_length, **options)


def _encode(batch: pa.RecordBatch) -> Encoded:
    return _STATE["encode"](batch)
