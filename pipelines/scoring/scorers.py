"""Scorers of a job's partitions: this process, several side by side, or those of a Ray cluster (ray_scorers.py).

Only this process publishes and records. A process that is killed leaves nothing but files aside; its partition is
scored again by another one. Processes end when the one that started them does.
"""

import multiprocessing
import os
import shutil
import signal
import threading
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import replace
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from typing import Any

from pipelines.core import cpu, threads
from pipelines.core.errors import InputError, listed
from pipelines.inference.predictor import Predictor
from pipelines.scoring import earlier_answers, ray_scorers, scoring_work
from pipelines.scoring.earlier_answers import EarlierAnswers
from pipelines.scoring.job_folders import Folder
from pipelines.scoring.job_record import Planned
from pipelines.scoring.partition_scoring import PieceScorer, ScoredPartition
from pipelines.scoring.scoring_work import MAX_DEATHS, POLL_SECONDS, WAITING, Results, Rows, StoppedError, Work

ANSWERS = "answers"  # the folder of an earlier job's answers among the files aside


def scored(work: Work, workers: int, advance: Rows) -> Results:
    """Score partitions in any order; the files of one are removed when the next is asked for.

    Args:
        workers: processes side by side; on a cluster 1 means as many as it has CPUs.
        advance: called after each piece; it may raise.

    Raises InputError if processes are killed again and again.
    """
    if ray_scorers.takes(work):
        results = ray_scorers.scored(work, workers if workers > 1 else 0, advance)
    elif (workers := min(workers, len(work.todo))) > 1:
        results = _by_processes(work, workers, advance)
    else:
        results = _here(work, advance)
    with closing(results):
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

        yield one, scoring_work.score(scorer, one, work.source, work.target, work.aside, advanced)
        before += one.rows


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
        pending: dict[Future[ScoredPartition | None], int] = {}
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
    worker_threads = max(1, (threads.used() or cpu.cores()) // workers)
    place = work.aside / ANSWERS if has_earlier else None
    arguments = (replace(work, job=replace(work.job, partitions=[]), todo=[]), worker_threads, place, rows)
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin, arguments)


class _Worker:
    """The model and the job that a process has loaded, for the partitions that it is to score."""

    scorer: PieceScorer
    source: Folder
    target: Folder
    rows: Any
    problem = ""  # why it could not begin


def _begin(work: Work, count: int, earlier: Path | None, rows: Any) -> None:
    """Begin a process: it ends with the one that started it, which alone hears Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    threads.use(count)
    _Worker.source, _Worker.target, _Worker.rows = work.source, work.target, rows
    try:
        answers = EarlierAnswers(earlier) if earlier else None
        predictor = Predictor.load(work.folder, threads=count)
        _Worker.scorer = PieceScorer(predictor, work.job, earlier=answers, signer=work.signer)
    except InputError as error:  # an error here would look as if the process had been killed
        _Worker.problem = str(error)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent
    parent.join()
    os._exit(1)


def _in_worker(number: int, planned: Planned) -> ScoredPartition | None:
    if _Worker.problem:
        raise InputError(_Worker.problem)

    def advance(done: int) -> None:
        _Worker.rows[number] = done
        if _Worker.rows[len(_Worker.rows) - 1]:
            raise StoppedError

    source, target = _Worker.source, _Worker.target
    return scoring_work.score(_Worker.scorer, planned, source, target, target.aside, advance)
