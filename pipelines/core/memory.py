"""The memory of the machine and of this process's container: all of it, and what is still free."""

import psutil

from pipelines.core import container


def total_bytes() -> float:
    """The memory of the machine, or that of this process's container if it has less."""
    return min(float(psutil.virtual_memory().total), container.memory_bytes())


def free_bytes() -> float:
    """The free memory of the machine, or of this process's container if that has less."""
    free = float(psutil.virtual_memory().available)
    try:
        used = float((container.CGROUP / "memory.current").read_text())
        cached = dict(line.split() for line in (container.CGROUP / "memory.stat").read_text().splitlines())
        return min(free, container.memory_bytes() - used + float(cached["file"]))
    except (OSError, ValueError, KeyError):  # no container, or an older kernel's
        return free
