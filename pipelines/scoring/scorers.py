"""Scorers of a job's partitions: this process, or several side by side. Only this process publishes and records.

A process that is killed leaves nothing but files aside; its partition is scored again by another one. Processes end
when the one that started them does.
"""

import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from typing import Any

from pipelines.core import threads
from pipelines.core.errors import InputError, listed
from pipelines.inference.predictor import Predictor
from pipelines.inference.receipts import Signer
from pipelines.scoring import earlier_answers, partition_scoring
from pipelines.scoring.earlier_answers import EarlierAnswers
from pipelines.scoring.job_folders import Folder, GoneError
from pipelines.scoring.job_record import Job, Planned
from pipelines.scoring.partition_scoring import ChangedError, PieceScorer, Scored
from pipelines.scoring.partitions import Partition

MAX_DEATHS = 3  # of processes, one after the other without a partition that was finished
WAITING = 2  # partitions for each process that are scored or wait
POLL_SECONDS = 0.2
ANSWERS = "answers"  # the folder of an earlier job's answers among the files aside

Results = Generator[tuple[Planned, Scored | None], None, None]  # None: the partition changed while it was scored
Rows = Callable[[int, str], None]  # takes the rows that are scored so far, and a note


class StoppedError(Exception):
    """The process that started this one wants no more."""


@dataclass(frozen=True)
class Work:
    """The partitions that a run of a job has to score."""

    job: Job
    folder: Path  # of the model
    source: Folder
    target: Folder
    todo: list[Planned]
    signer: Signer | None = None

    @property
    def aside(self) -> Path:
        return self.target.aside


def scored(work: Work, workers: int, advance: Rows) -> Results:
    """Score partitions in any order; the files of one are removed when the next is asked for.

    `advance` is called after each piece, and may raise. Raises InputError if processes are killed again and again.
    """
    workers = min(workers, len(work.todo))
    results = _by_processes(work, workers, advance) if workers > 1 else _here(work, advance)
    for planned, result in results:
        yield planned, result
        if result:
            shutil.rmtree(result.rows_file.parent, ignore_errors=True)


def _here(work: Work, advance: Rows) -> Results:
    predictor = Predictor.load(work.folder)
    scorer = PieceScorer(predictor, work.job, earlier=_earlier(work), signer=work.signer)
    before = 0
    for number, one in enumerate(work.todo, start=1):
        note, start = f"partition {number:,} of {len(work.todo):,}", before

        def advanced(rows: int, start: int = start, note: str = note) -> None:
            advance(start + rows, note)

        yield one, _one(scorer, one, work.source, work.target, advanced)
        before += one.rows


def _one(
    scorer: PieceScorer, planned: Planned, source: Folder, target: Folder, advance: Callable[[int], None]
) -> Scored | None:
    """Score a partition in a folder of its own, which another process cannot meet; None if it changed meanwhile."""
    aside = Path(tempfile.mkdtemp(dir=target.aside))
    try:
        partition = Partition(planned.name, source)
        with partition.here():
            return partition_scoring.score(scorer, planned, partition, target, aside, advance)
    except (ChangedError, GoneError):
        shutil.rmtree(aside, ignore_errors=True)
        return None


def _earlier(work: Work) -> EarlierAnswers | None:
    """The answers of the job's earlier one, collected now."""
    if not work.job.since:
        return None
    return earlier_answers.collect(work.job, work.folder, work.aside / ANSWERS)


def _by_processes(work: Work, workers: int, advance: Rows) -> Results:
    """Score in processes; when one is killed, all are started anew for what is not finished."""
    has_earlier = _earlier(work) is not None
    rows: Any = RawArray("q", len(work.todo) + 1)  # scored so far of each partition; the last is 1 when all shall stop
    waiting, deaths = deque(range(len(work.todo))), 0
    while waiting:
        pool = _pool(work, workers, has_earlier, rows)
        pending: dict[Future[Scored | None], int] = {}
        try:
            while waiting or pending:
                while waiting and len(pending) < WAITING * workers:
                    one = work.todo[waiting[0]]
                    future = pool.submit(_in_worker, waiting[0], one)
                    pending[future] = waiting.popleft()
                done, _ = wait(pending, POLL_SECONDS, FIRST_COMPLETED)
                for future in done:
                    result = future.result()
                    number = pending.pop(future)
                    rows[number], deaths = work.todo[number].rows, 0
                    yield work.todo[number], result
                advance(sum(rows[: len(work.todo)]), f"{len(waiting) + len(pending):,} partitions to go")
        except BrokenProcessPool:
            deaths += 1
            waiting.extendleft(sorted(pending.values(), reverse=True))
            if deaths == MAX_DEATHS:
                raise InputError(_deaths(work, sorted(pending.values()))) from None
        except BaseException:
            rows[len(work.todo)] = 1
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _deaths(work: Work, numbers: list[int]) -> str:
    names = listed([work.todo[number].name for number in numbers])
    return (
        f"{work.target}: processes were killed {MAX_DEATHS} times in a row while they scored {names}; is memory short? "
        "What is finished stays; run the job again with fewer workers"
    )


def _pool(work: Work, workers: int, has_earlier: bool, rows: Any) -> ProcessPoolExecutor:
    """Processes that have loaded the model; they share this one's threads."""
    worker_threads = max(1, (threads.used() or len(os.sched_getaffinity(0))) // workers)
    place = work.aside / ANSWERS if has_earlier else None
    arguments = (replace(work, job=replace(work.job, partitions=[]), todo=[]), worker_threads, place, rows)
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin, arguments)


class _Worker:
    """The model and the job that a process has loaded, for the partitions that it is to score."""

    scorer: PieceScorer
    source: Folder
    target: Folder
    rows: Any


def _begin(work: Work, count: int, earlier: Path | None, rows: Any) -> None:
    """Begin a process: it ends with the one that started it, which alone hears Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    threads.use(count)
    answers = EarlierAnswers(earlier) if earlier else None
    predictor = Predictor.load(work.folder, threads=count)
    _Worker.scorer = PieceScorer(predictor, work.job, earlier=answers, signer=work.signer)
    _Worker.source, _Worker.target, _Worker.rows = work.source, work.target, rows


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent
    parent.join()
    os._exit(1)


def _in_worker(number: int, planned: Planned) -> Scored | None:
    def advance(done: int) -> None:
        _Worker.rows[number] = done
        if _Worker.rows[len(_Worker.rows) - 1]:
            raise StoppedError

    return _one(_Worker.scorer, planned, _Worker.source, _Worker.target, advance)
