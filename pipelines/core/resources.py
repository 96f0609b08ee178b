"""The section `resources` of params.yaml: how fast stages run, never what they compute. DVC does not track it."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from pipelines.core import params
from pipelines.core.section import Count, Positive, Section


class Resources(Section):
    """The resources of one run of a stage, or of one service."""

    # Ray Train workers; 0 trains in the stage's own process; [least, most] takes as many as the cluster has room for
    workers: Annotated[int, Field(ge=0)] | tuple[Count, Count] = 0
    gpus: Annotated[float, Field(ge=0)] = 0  # per worker
    threads: Annotated[int, Field(ge=0)] = 0  # per worker, for torch and for encode's processes; 0 lets torch choose
    # auto: bf16 on a GPU, fp32 on a CPU; on a CPU bf16 is faster only with AVX512-BF16 or AMX, and slower without
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    cache_gb: Annotated[float, Field(ge=0)] = 4  # disk space for frozen features; 0 keeps none
    max_failures: Annotated[int, Field(ge=-1)] = 2  # how often Ray Train restarts dead workers; -1: without limit
    checkpoint_minutes: Positive = 5
    acceleration: bool = True  # off: every step is computed the plain way, for debugging


def read(file: Path = params.FILE) -> Resources:
    """The section, with defaults for the keys that it does not set."""
    return params.parse(Resources, params.read(file).get("resources") or {}, "resources", file)
