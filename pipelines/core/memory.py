"""The memory that this process may still use."""

from pathlib import Path

import psutil

CGROUP = Path("/sys/fs/cgroup")


def free_bytes() -> float:
    """The free memory of the machine, or of this process's container if that has less."""
    free = float(psutil.virtual_memory().available)
    try:
        limit, used = ((CGROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
        cached = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        return min(free, float(limit) - float(used) + float(cached["file"])) if limit != "max" else free
    except (OSError, ValueError, KeyError):  # no container, or an older kernel's
        return free
