"""Encode rows on every core, in their order, with only a few batches in memory."""

import multiprocessing
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from typing import Any

import pyarrow as pa

from pipelines.core import cpu
from pipelines.core.task import Task
from pipelines.text import encoding, tokenizer
from pipelines.text.encoding import Encoded

WAITING = 2  # maximum number of waiting batches per process
_INHERITED: dict[str, Any] = {}


def encoded(
    batches: Iterable[pa.RecordBatch],
    loaded: tokenizer.Tokenizer,
    task: Task,
    max_length: int,
    processes: int = 0,
    **options: Any,
) -> Iterator[Encoded]:
    """The ids of each batch; they do not depend on the number of processes (0: one for each core)."""
    encode = partial(encoding.for_kind(task.kind).encode, tokenizer=loaded, task=task, max_length=max_length, **options)
    processes = processes or cpu.cores()
    if processes == 1 or loaded.threaded:
        yield from map(encode, batches)
        return
    _INHERITED["encode"] = encode  # a forked process inherits the tokenizer and does not load it again
    with ProcessPoolExecutor(processes, multiprocessing.get_context("fork")) as pool:
        pool.submit(int).result()  # fork before Arrow starts threads of its own to read
        waiting: deque[Future[Encoded]] = deque()
        for batch in batches:
            waiting.append(pool.submit(_encode, batch))
            if len(waiting) > WAITING * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _encode(batch: pa.RecordBatch) -> Encoded:
    return _INHERITED["encode"](batch)
