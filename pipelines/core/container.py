"""The limits of the container of this process (Linux's control groups, version 2), which libraries do not see."""

import math
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def cores() -> int:
    """The cores whose time the container has, rounded up; 0 without a limit.

    Libraries start a thread for each core of the machine, and these would wait for each other.
    """
    try:
        time, period = (CGROUP / "cpu.max").read_text().split()
        return max(1, math.ceil(float(time) / float(period))) if time != "max" else 0
    except (OSError, ValueError, ZeroDivisionError):  # no container, or an older kernel's
        return 0


def memory_bytes() -> float:
    """The most memory that the container may use; infinity without a limit."""
    try:
        limit = (CGROUP / "memory.max").read_text().strip()
        return math.inf if limit == "max" else float(limit)
    except (OSError, ValueError):  # no container, or an older kernel's
        return math.inf
