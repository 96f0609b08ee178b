"""DVC's part of a run: the plan, and what DVC does before and after a stage's command.

The calls and their order are those of `dvc repro` (dvc.repo.reproduce, dvc.stage.run), so dvc.lock, the cache and the
run-cache end as `dvc repro` would leave them. docs/private-names.md lists the undocumented names of DVC used here.
"""

import json
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipelines.core import locks, paths
from pipelines.core.errors import InputError
from pipelines.graph import run_refusals

WORKSPACE = ("run", "all")  # the name of the lock that a run of the graph holds
PATIENCE_SECONDS = 60  # to wait for another DVC command that holds the repository


@contextmanager
def opened() -> Iterator[Any]:
    """Open the checkout as a `dvc.repo.Repo`; DVC's errors become InputErrors of one line."""
    from dvc.repo import Repo

    run_refusals.require_merged()
    logging.getLogger("dvc").setLevel(logging.WARNING)  # the board shows what DVC would log of every stage
    with sentences(), Repo(".") as repo, repo.scm_context(quiet=True):
        with locked(repo):  # under the lock, since another command may be writing the file
            _remove_stale_locks(Path(repo.tmp_dir) / "rwlock")
        yield repo


@contextmanager
def sentences() -> Iterator[None]:
    """Turn DVC's errors into InputErrors of one line."""
    from dvc.exceptions import DvcException

    try:
        yield
    except DvcException as error:
        raise InputError(sentence(error)) from error


def sentence(error: BaseException) -> str:
    """An error of DVC and its cause on one line."""
    messages = [" ".join(str(cause).split()) for cause in (error, error.__cause__) if cause and str(cause)]
    return ": ".join(dict.fromkeys(messages))


@contextmanager
def locked(repo: Any, without_limit: bool = False, tell: Callable[[str], None] | None = None) -> Iterator[None]:
    """Take DVC's lock, as every DVC command does; wait while another command has it.

    Args:
        without_limit: waits as long as it takes, instead of raising InputError after PATIENCE_SECONDS.
        tell: prints once that this waits.
    """
    from dvc.lock import LockError

    until, waits = time.monotonic() + PATIENCE_SECONDS, False
    while True:
        try:
            repo.lock.lock()
            break
        except LockError:
            if not without_limit and time.monotonic() > until:
                raise InputError("another DVC command is using this checkout; wait until it ends, or stop it") from None
            if tell and not waits:
                tell("waits for another DVC command, which is using this checkout")
                waits = True
    try:
        yield
    finally:
        repo.lock.unlock()


def planned(repo: Any, targets: Sequence[str] = ()) -> tuple[list[Any], dict[str, set[str]]]:
    """The stages of a run in order of dependency, and for each stage the names of those that it depends on."""
    from dvc.repo.reproduce import collect_stages, get_active_graph, plan_repro

    graph = get_active_graph(repo.index.graph)
    chosen = collect_stages(repo, targets) if targets else list(repo.index.stages)
    order = plan_repro(graph, chosen)
    return order, {stage.addressing: {successor.addressing for successor in graph.successors(stage)} for stage in order}


@contextmanager
def writing(repo: Any, stages: Sequence[Any]) -> Iterator[None]:
    """Mark the outputs of these stages as being written, as `dvc repro` does for one stage.

    Other DVC commands then refuse to read or write them, and name this process in their error.
    """
    from dvc.lock import LockError
    from dvc.rwlock import rwlock

    outs = [out.fs_path for stage in stages for out in stage.outs]
    try:
        hardlink = repo.config["core"].get("hardlink_lock", False)
        with rwlock(repo.tmp_dir, repo.fs, " ".join(sys.argv), [], outs, hardlink):
            yield
    except LockError as error:
        raise InputError(f"another DVC command is writing the same outputs: {sentence(error)}") from None


def _remove_stale_locks(file: Path) -> None:
    """Remove DVC's list of readers and writers if none of them still runs.

    DVC itself looks only at the process id, which may belong to an unrelated process by now, or to one of another
    container or machine: while a run of the graph goes on there, its list stays.
    """
    if locks.runs_elsewhere(*WORKSPACE):
        return
    try:
        lists = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        _remove(file)  # DVC cannot read it either
        return
    try:
        every = [
            *lists.get("write", {}).values(),
            *(holder for several in lists.get("read", {}).values() for holder in several),
        ]
        alive = any(_runs_dvc(int(holder["pid"])) for holder in every)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        alive = False  # DVC cannot read it either
    if not alive:
        _remove(file)


def _remove(place: Path) -> None:
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)


def _runs_dvc(pid: int) -> bool:
    """Return whether another process with this id runs DVC or bertline."""
    import psutil

    try:
        words = " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return False
    return pid != os.getpid() and any(name in words for name in ("dvc", "bertline", "flows.cli", "prefect"))


def begin(stage: Any) -> bool:
    """Do what DVC does before a stage's command; return whether the command has to run (False if it was cached)."""
    from dvc.stage.cache import RunCacheNotFoundError

    if stage.frozen or not stage.cmd:  # no command to run: DVC fetches an import, or only checks the outputs
        if stage.frozen or not stage.is_import:
            run_refusals.require_here(stage)
        if stage.reproduce():
            _write_lock(stage)
        return False
    if missing := [str(dep) for dep in stage.deps if not dep.exists]:
        raise InputError(f"{', '.join(missing)}: no such file, and no stage makes it")
    stage.remove_outs()
    try:
        stage.repo.stage_cache.restore(stage)
    except RunCacheNotFoundError:
        stage.save_deps()
        return True
    stage.save_deps()
    finish(stage)
    return False


def finish(stage: Any) -> None:
    """Do what DVC does after a stage's command, but record its deps as they were when the stage began.

    DVC would hash the deps again at the end, and record a file edited meanwhile as the one that the stage read.
    """
    stage.save_outs()
    stage.md5 = stage.compute_md5()
    if all(out.use_cache or out.is_metric or out.is_plot for out in stage.outs):
        stage.repo.stage_cache.save(stage)
    stage.commit()
    for out in stage.outs:  # if a file of a folder cannot be cached, DVC only logs it
        if out.use_cache and out.changed_cache():
            raise InputError(f"{out}: DVC's cache lacks some of its files; is its disk full?")
    _write_lock(stage)


def _write_lock(stage: Any) -> None:
    """Record a stage in dvc.lock; one that is not of dvc.yaml here has a file of its own, which DVC writes."""
    from dvc.stage.serialize import to_lockfile

    if stage.relpath != "dvc.yaml":
        stage.dump(update_pipeline=False)
        return
    with _rewritten(stage.repo) as lock:
        lock["stages"] = lock.get("stages", {})
        lock["stages"].update(to_lockfile(stage))


@contextmanager
def _rewritten(repo: Any) -> Iterator[dict[str, Any]]:
    """Yield the content of dvc.lock, to be changed, and replace the file at once.

    DVC overwrites it in place: a kill meanwhile would leave a part of it, which may look like a whole one.
    """
    from dvc.utils.serialize import modify_yaml

    with paths.fresh_file(paths.DVC_LOCK) as aside:
        if paths.DVC_LOCK.is_file():
            shutil.copy(paths.DVC_LOCK, aside)
        with modify_yaml(str(aside), fs=repo.fs) as lock:
            if not lock:
                lock["schema"] = "2.0"  # DVC expects it at the top
            yield lock
    repo.scm_context.track_file(str(paths.DVC_LOCK))


def in_order(repo: Any, names: Sequence[str]) -> None:
    """Put the stages of dvc.lock into the order in which `dvc repro` writes them."""
    with _rewritten(repo) as lock:
        stages = lock["stages"]
        place = {name: number for number, name in enumerate(names)}
        there = [name for name in stages if name in place]
        if there != sorted(there, key=place.__getitem__):
            for name in sorted(there, key=place.__getitem__):
                stages.move_to_end(name)
