"""What this machine's CPU can do, where numbers depend on it."""

from functools import cache
from pathlib import Path


def saturates() -> bool:
    """Whether products of int8 saturate: an x86 CPU without VNNI adds two of them in 16 bits (ONNX Runtime's docs)."""
    return "avx2" in _about() and "vnni" not in _about()


def has_bf16() -> bool:
    """Whether it has instructions for bf16: AVX512-BF16, AMX, or ARM's."""
    return "bf16" in _about()


@cache
def _about() -> str:
    """What Linux says of it; nothing elsewhere."""
    about = Path("/proc/cpuinfo")
    return about.read_text(encoding="utf-8") if about.is_file() else ""
