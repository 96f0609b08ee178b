"""The resources of this machine that stages share when they run at the same time: cores, memory, GPUs."""

import os
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from pipelines.core import cpu, memory
from pipelines.core.resources import Resources

GPUS = Path("/proc/driver/nvidia/gpus")  # one folder for each GPU; torch would start the GPU's driver in this process


def cores() -> int:
    """The number of threads that OMP_NUM_THREADS sets, as for torch; else the cores that this process may use."""
    setting = os.environ.get("OMP_NUM_THREADS", "")
    return int(setting) if setting.isdecimal() and int(setting) else cpu.cores()


def memory_gb() -> float:
    """The memory of the machine, or of this process's container, in gigabytes of 10**9 bytes."""
    return memory.total_bytes() / 1e9


def gpus() -> tuple[str, ...]:
    """The names of the GPUs, as in CUDA_VISIBLE_DEVICES, which ends at the first negative number, as for CUDA."""
    setting = os.environ.get("CUDA_VISIBLE_DEVICES")
    if setting is not None:
        names = takewhile(lambda name: not name.strip().startswith("-"), setting.split(","))
        return tuple(name for name in names if name.strip())
    return tuple(str(number) for number, _ in enumerate(GPUS.iterdir())) if GPUS.is_dir() else ()


@dataclass
class Limits:
    """The resources of this machine, and those that the running stages hold.

    A stage that requires more than the machine has runs alone.
    """

    cores: int = field(default_factory=cores)
    memory_gb: float = field(default_factory=memory_gb)
    gpus: tuple[str, ...] = field(default_factory=gpus)
    running: dict[str, tuple[int, float, tuple[str, ...]]] = field(default_factory=dict)

    def take(self, name: str, needs: Resources) -> dict[str, str] | None:
        """Reserve resources for a stage; returns its environment, which names its GPUs, or None if it has to wait.

        A stage that runs on Ray takes nothing of this machine: Ray decides when it runs.
        """
        if needs.placement == "ray":
            return {}
        workers = max(1, needs.workers if isinstance(needs.workers, int) else needs.workers[1])
        threads, gigabytes = (needs.threads or self.cores) * workers, needs.memory_gb * workers
        used = {gpu for _, _, held in self.running.values() for gpu in held}
        free = [gpu for gpu in self.gpus if gpu not in used]
        # torch uses any GPU that it sees, so each stage gets at least one, if there are GPUs
        count = min(len(self.gpus), max(1, -int(-needs.gpus * workers // 1)))
        fits = (
            threads <= self.cores - sum(threads_held for threads_held, _, _ in self.running.values())
            and gigabytes <= self.memory_gb - sum(memory_held for _, memory_held, _ in self.running.values())
            and count <= len(free)
        )
        if self.running and not fits:
            return None
        self.running[name] = threads, gigabytes, tuple(free[:count])
        return {"CUDA_VISIBLE_DEVICES": ",".join(free[:count])} if self.gpus else {}

    def give_back(self, name: str) -> None:
        """Free what the stage held."""
        self.running.pop(name, None)
