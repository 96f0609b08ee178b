"""The memory of the machine and of this process's container: all of it, and what is still free."""

import math
from pathlib import Path

import psutil

CGROUP = Path("/sys/fs/cgroup")


def total_bytes() -> float:
    """The memory of the machine, or that of this process's container if it has less."""
    return min(float(psutil.virtual_memory().total), _limit())


def free_bytes() -> float:
    """The free memory of the machine, or of this process's container if that has less."""
    free = float(psutil.virtual_memory().available)
    try:
        used = float((CGROUP / "memory.current").read_text())
        cached = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        return min(free, _limit() - used + float(cached["file"]))
    except (OSError, ValueError, KeyError):  # no container, or an older kernel's
        return free


def _limit() -> float:
    """The limit of this process's container; infinity without one."""
    try:
        limit = (CGROUP / "memory.max").read_text().strip()
        return math.inf if limit == "max" else float(limit)
    except (OSError, ValueError):  # no container, or an older kernel's
        return math.inf
