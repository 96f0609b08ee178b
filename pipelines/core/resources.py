"""The section `resources` of params.yaml: how fast stages run, never what they compute. DVC does not track it."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from pipelines.core import params
from pipelines.core.errors import UsageError
from pipelines.core.section import Positive, Range, Section, Switch


class Resources(Section):
    """The resources of one run of a stage, or of one service."""

    # Ray Train workers; 0 trains in the stage's own process; [least, most] takes as many as the cluster has room for
    workers: Annotated[int, Field(ge=0)] | Range = 0
    gpus: Annotated[float, Field(ge=0)] = 0  # per worker
    # per worker, for torch and for encode's processes; 0: all cores. The number can change rounding
    threads: Annotated[int, Field(ge=0)] = 0
    # maximum per worker; 0: unknown, and `bertline run` does not take memory into account
    memory_gb: Annotated[float, Field(ge=0)] = 0
    # auto: bf16 on a GPU, fp32 on a CPU. bf16 is faster on a CPU with AVX512-BF16 or AMX; without them fp32 is used
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    cache_gb: Annotated[float, Field(ge=0)] = 4  # disk space for frozen features, or a teacher's states; 0 keeps none
    # how often Ray Train restarts dead workers, and a placed stage runs again after its node died; -1: without limit
    max_failures: Annotated[int, Field(ge=-1)] = 2
    retries: Annotated[int, Field(ge=0)] = 0  # how often `bertline run` runs a failed stage again
    checkpoint_minutes: Positive = 5
    acceleration: Switch = True  # off: every step uses the plain, slower computation, for debugging
    # the runtime of a version that has an export; auto: `bertline retrain` measures both and takes the faster one
    runtime: Literal["auto", "torch", "onnx"] = "auto"
    placement: Literal["here", "ray"] = "here"  # ray: `bertline run` runs the stage on a node of a Ray cluster
    # for a stage or one entry of it, such as {pretrain: {threads: 2}, finetune@livedoor: {gpus: 1}}
    stages: dict[str, dict[str, Any]] = {}


def read(stage: str = "", key: str = "", file: Path = params.FILE) -> Resources:
    """The resources of an entry of a stage: the section, the overrides for the stage or entry, and defaults."""
    return within(params.read(file), stage, key, file)


def within(values: dict[str, dict[str, Any]], stage: str, key: str, file: Path = params.FILE) -> Resources:
    """The same as `read`, from `values` that params.read returned."""
    settings = values.get("resources", {})
    resources = params.parse(Resources, settings, "resources", file)
    for name in (stage, f"{stage}@{key}"):
        if name in resources.stages:
            overrides = resources.stages[name]
            if "stages" in overrides:
                raise UsageError(f"{file}: resources.stages.{name}.stages: not allowed inside a stage; remove it")
            params.parse(Resources, overrides, f"resources.stages.{name}", file)
            settings = settings | overrides
    return params.parse(Resources, settings, "resources", file)
