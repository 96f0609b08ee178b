"""What this machine's CPU can do, where numbers depend on it."""

from functools import cache
from pathlib import Path


@cache
def saturates() -> bool:
    """Whether products of int8 saturate: an x86 CPU without VNNI adds two of them in 16 bits (ONNX Runtime's docs)."""
    about = Path("/proc/cpuinfo")
    flags = about.read_text(encoding="utf-8") if about.is_file() else ""
    return "avx2" in flags and "vnni" not in flags
