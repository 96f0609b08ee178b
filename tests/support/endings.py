"""Which processes have ended: an orphan that nobody reaps has, too."""

import time
from collections.abc import Iterable

import psutil


def alive_after(processes: Iterable[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Those of the processes that have not ended within so many seconds.

    An orphan that has ended stays as a zombie where the first process of the machine, as in some containers, reaps
    none; psutil takes it for alive.
    """
    processes, until = list(processes), time.monotonic() + seconds
    while (alive := [process for process in processes if not ended(process)]) and time.monotonic() < until:
        time.sleep(0.05)
    return alive


def ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
