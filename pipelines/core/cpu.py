"""The CPU: the cores that this process may use, and the features that affect numerical results."""

import hashlib
import math
import os
from functools import cache
from pathlib import Path

from pipelines.core import memory


def cores() -> int:
    """The cores that this process may use, in a container those of its share."""
    allowed = len(os.sched_getaffinity(0))
    return min(allowed, share() or allowed)


def share() -> int:
    """The cores whose time the container of this process has, rounded up; 0 without a limit.

    Libraries do not see this limit: they start a thread for each core of the machine, which then wait for each other.
    """
    try:
        time, period = (memory.CGROUP / "cpu.max").read_text().split()
        return max(1, math.ceil(float(time) / float(period))) if time != "max" else 0
    except (OSError, ValueError, ZeroDivisionError):  # no container, or an older kernel's
        return 0


def saturates() -> bool:
    """Return whether int8 products may saturate: an x86 CPU without VNNI adds two in 16 bits (ONNX Runtime's docs)."""
    return "avx2" in _about() and "vnni" not in _about()


def has_bf16() -> bool:
    """Return whether the CPU has instructions for bf16: AVX512-BF16, AMX, or ARM's."""
    return "bf16" in _about()


def fingerprint() -> str:
    """A digest of the CPU's name and its instructions; kernels are chosen by them. Empty where they are unknown."""
    lines = {line for line in _about().splitlines() if line.split("\t")[0] in ("model name", "flags", "Features")}
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16] if lines else ""


@cache
def _about() -> str:
    """The contents of /proc/cpuinfo; empty on systems without this file."""
    about = Path("/proc/cpuinfo")
    return about.read_text(encoding="utf-8") if about.is_file() else ""
