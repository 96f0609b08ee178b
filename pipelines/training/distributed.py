"""The training loop on Ray Train: the same TorchTrainer for one process, one worker or many."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from pipelines.core import paths, workers
from pipelines.core.entries import Fit, Resources
from pipelines.core.errors import InputError
from pipelines.training import checkpoint
from pipelines.training.batches import Batches
from pipelines.training.loop import Groups, Job, Loss, Watch, train

Report = Callable[[int, dict[str, float]], None]


class FitFunction(Protocol):
    """Train `model` in place and return it; `report` then gets the curve's points, (step, {"loss": ...}).

    Some of them, the last among them, also have what `watch(model)` said at that step. `select` names one of its
    scores: the weights that had the highest are kept then, not the last ones.
    """

    def __call__(
        self,
        model: nn.Module,
        loss: Loss,
        batches: Batches,
        params: Fit,
        groups: Groups | None = None,
        report: Report | None = None,
        watch: Watch | None = None,
        select: str = "",
    ) -> Any: ...


@contextmanager
def fitting(stage: str, key: str, resources: Resources) -> Iterator[FitFunction]:
    """The `fit` for one stage's entry. A killed stage finds its checkpoints; they go when the block ends well."""
    folder = paths.checkpoints(stage, key).resolve()
    checkpoint.check_folder(folder)
    count = 0  # a method may fit more than once: each has a checkpoint of its own

    def fit(
        model: nn.Module,
        loss: Loss,
        batches: Batches,
        params: Fit,
        groups: Groups | None = None,
        report: Report | None = None,
        watch: Watch | None = None,
        select: str = "",
    ) -> nn.Module:
        nonlocal count
        count += 1
        file = folder / f"fit-{count}.pt"
        seconds = resources.checkpoint_minutes * 60
        job = Job(model, loss, batches, params, groups, file, seconds, resources.precision, watch, select)
        state = _run(job, resources, folder)
        model.load_state_dict(state["model"])
        for step, value in state["curve"] if report else []:
            report(step, value)  # type: ignore[misc]
        return model.eval()

    yield fit
    shutil.rmtree(folder)


def _run(job: Job, resources: Resources, folder: Path) -> dict[str, Any]:
    """Train in Ray's own way and return the last checkpoint."""
    fingerprint = job.fingerprint()
    state = checkpoint.load(job.checkpoint, fingerprint)
    if state is None or state["step"] < len(job.batches):
        _train_on_ray(job, resources, folder, fingerprint)
        state = checkpoint.load(job.checkpoint, fingerprint)
    if state is None or state["step"] < len(job.batches):
        raise InputError(f"{job.checkpoint}: training ended without its last checkpoint; see Ray's lines above")
    return state


def _train_on_ray(job: Job, resources: Resources, folder: Path, fingerprint: str) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import logging

    import ray
    from ray.train import FailureConfig, RunConfig, ScalingConfig

    logging.getLogger("ray.train").setLevel(logging.WARNING)  # its lines repeat our own progress
    get_job = _shared(job) if resources.workers else lambda: job

    def loop() -> Any:
        import torch

        if resources.threads:
            torch.set_num_threads(resources.threads)
        try:
            train(get_job(), lambda metrics: ray.train.report(metrics), fingerprint)
        except InputError as error:  # every worker has it: told, not raised, for a restart would meet it again
            return str(error)
        return ""

    gpus = {"GPU": resources.gpus} if resources.gpus else None
    count: Any = resources.workers  # Ray's hints do not know of (least, most)
    scaling = ScalingConfig(num_workers=count, use_gpu=bool(gpus), resources_per_worker=gpus)
    # Ray's own record is of one process's run; ours, the checkpoint, outlives it
    run = RunConfig(name=f"fit-{os.getpid()}", storage_path=str(folder / "ray"))
    run.failure_config = FailureConfig(max_failures=resources.max_failures)
    trainer = _trainer()
    _to_its_end(lambda: trainer(loop, scaling_config=scaling, run_config=run).fit(), resources.max_failures)


def _trainer() -> Any:
    """Ray's TorchTrainer without its cleaner of placement groups, which go with this process anyway.

    The cleaner asks Ray's dashboard, and where there is none waits 12 s at the end of every training.
    """
    from ray.train.torch import TorchTrainer
    from ray.train.v2._internal.callbacks.placement_group_callback import PlacementGroupCleanerCallback

    class Trainer(TorchTrainer):
        def _create_default_callbacks(self) -> list[Any]:
            every = super()._create_default_callbacks()  # type: ignore[misc]
            return [each for each in every if not isinstance(each, PlacementGroupCleanerCallback)]

    return Trainer


def _to_its_end(fit: Callable[[], Any], max_failures: int) -> None:
    """Run Ray's trainer, whose result is the sentence of an error or nothing; its own errors become a sentence too."""
    from ray.train import ControllerError, WorkerGroupError

    left = max_failures
    while True:
        try:
            told = fit().return_value
            break
        except WorkerGroupError as error:
            reasons = {str(failure).strip().splitlines()[-1] for failure in error.worker_failures.values()}
            raise InputError(f"training failed {max_failures + 1} times: {'; '.join(reasons)}") from error
        except ControllerError:  # Ray gives up where a worker dies while its group still starts; the checkpoint goes on
            if not left:
                raise
            left -= 1
    if told:
        raise InputError(told)


def _shared(job: Job) -> Callable[[], Job]:
    """The job in Ray's object store, and the way for a worker to get it."""
    _connect()
    import ray

    handle = ray.put(job)
    return lambda: ray.get(handle)


def _connect() -> None:
    """Join the cluster that RAY_ADDRESS names, else start a local one; workers find the checkout's packages."""
    import ray

    if not ray.is_initialized():
        ray.init(workers.address(), include_dashboard=False, runtime_env=workers.runtime_environment())
