"""Features of this machine's CPU that affect numerical results."""

from functools import cache
from pathlib import Path


def saturates() -> bool:
    """Return whether int8 products may saturate: an x86 CPU without VNNI adds two in 16 bits (ONNX Runtime's docs)."""
    return "avx2" in _about() and "vnni" not in _about()


def has_bf16() -> bool:
    """Return whether the CPU has instructions for bf16: AVX512-BF16, AMX, or ARM's."""
    return "bf16" in _about()


@cache
def _about() -> str:
    """The contents of /proc/cpuinfo; empty on systems without this file."""
    about = Path("/proc/cpuinfo")
    return about.read_text(encoding="utf-8") if about.is_file() else ""
