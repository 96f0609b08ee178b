"""The CPU: the cores that this process may use, and the features that affect numerical results."""

import hashlib
import os
from functools import cache
from pathlib import Path

from pipelines.core import container


def cores() -> int:
    """The cores that this process may use, in a container those of its share."""
    allowed = len(os.sched_getaffinity(0))
    return min(allowed, container.cores() or allowed)


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
