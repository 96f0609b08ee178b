"""The training loop on Ray Train: the same TorchTrainer for one process, one worker or many."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict

from torch import nn

from pipelines.acceleration import apply
from pipelines.core import code_digest, paths
from pipelines.core.errors import InputError
from pipelines.core.resources import Resources
from pipelines.entries.parts.fit import Fit
from pipelines.models import unpickled
from pipelines.training import resuming, workers
from pipelines.training.batches import Batches
from pipelines.training.loop import AfterStep, EachStep, Groups, Job, Loss, Watch, train

Report = Callable[[int, dict[str, float]], None]


class FitOptions(TypedDict, total=False):
    """Options of `fit` besides model, loss, batches and params; a function that passes them on declares this type.

    Attributes:
        groups: returns the parameters that train, with their rates, and freezes the others; None trains everything.
        report: called at the end for each point of the curve, (step, {"loss": ...}); some points, including the last,
            also have the scores of `watch(model)` at that step.
        watch: scores the model while it trains.
        select: a score of `watch`; the weights with its highest value are kept instead of the last ones.
        kind: the kind of rows, if the loss reads only the outputs of the model's head; see
            `acceleration.apply.to_rows`.
        each_step: called before every step with the model, the step and the number of steps.
        after_step: called after every step with the model.
    """

    groups: Groups | None
    report: Report | None
    watch: Watch | None
    select: str
    kind: str
    each_step: EachStep | None
    after_step: AfterStep | None


class Fitting:
    """The `fit` of one stage's entry: trains a model in place and returns it, in eval mode.

    A method may call it more than once; each call has its own checkpoint. FitOptions describes the keywords.
    """

    def __init__(self, folder: Path, place: Path, resources: Resources, depends: str) -> None:
        self.folder, self.resources, self.depends = folder, resources, depends
        self.remote = workers.address() != "local"  # whether workers may be on other machines
        self.place = None if self.remote else place
        self.count = 0

    def __call__(
        self,
        model: nn.Module,
        loss: Loss,
        batches: Batches,
        params: Fit,
        *,
        groups: Groups | None = None,
        report: Report | None = None,
        watch: Watch | None = None,
        select: str = "",
        kind: str = "",
        each_step: EachStep | None = None,
        after_step: AfterStep | None = None,
    ) -> Any:
        self.count += 1
        with apply.to_rows(model, batches, kind, self.place, self.resources, watch) as on:
            job = Job(
                model,
                loss,
                on.batches,
                params,
                groups,
                checkpoint=self.folder / f"fit-{self.count}.pt",
                checkpoint_seconds=self.resources.checkpoint_minutes * 60,
                precision=self.resources.precision,
                watch=on.watch,
                select=select,
                each_step=each_step,
                after_step=after_step,
                depends=self.depends,
                accelerated=on.names,
            )
            state = _run(job, self.resources, self.folder)
            model.load_state_dict(state["model"])
        for step, value in state["curve"] if report else []:
            report(step, value)  # type: ignore[misc]
        return model.eval()


@contextmanager
def fitting(stage: str, key: str, resources: Resources, depends: str = "", plugin: str = "") -> Iterator[Fitting]:
    """Yield the `fit` of one stage's entry. A killed stage resumes from its checkpoints; a completed one removes them.

    Write the model to its final folder inside the block, so that a kill leaves the checkpoint or the model.

    `depends` is a digest of what losses and scores depend on besides model, batch and params, such as a teacher, or the
    rows of `dev`. A checkpoint with another digest is not used, nor one of other code of the stage or its `plugin`.
    """
    folder = paths.checkpoints(stage, key).resolve()
    resuming.check_folder(folder)
    code = code_digest.of(stage, plugin)
    yield Fitting(folder, paths.frozen_features(stage, key), resources, " ".join(filter(None, (depends, code))))
    shutil.rmtree(folder)


def _run(job: Job, resources: Resources, folder: Path) -> dict[str, Any]:
    """Train with Ray Train and return the last checkpoint."""
    fingerprint = job.fingerprint()
    state = resuming.load(job.checkpoint, fingerprint)
    if state is None or state["step"] < len(job.batches):
        _train_on_ray(job, resources, folder, fingerprint)
        state = resuming.load(job.checkpoint, fingerprint)
    if state is None or state["step"] < len(job.batches):
        raise InputError(f"{job.checkpoint}: training ended without its last checkpoint; see Ray's output above")
    return state


def _train_on_ray(job: Job, resources: Resources, folder: Path, fingerprint: str) -> None:
    workers.settle()
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
        except InputError as error:  # returned, not raised: a restart would fail again
            return str(error)
        return ""

    gpus = {"GPU": resources.gpus} if resources.gpus else None
    count: Any = resources.workers  # Ray's type hints lack (least, most)
    scaling = ScalingConfig(num_workers=count, use_gpu=bool(gpus), resources_per_worker=gpus)
    # Ray's own record belongs to this process; our checkpoint outlives it
    run = RunConfig(name=f"fit-{os.getpid()}", storage_path=str(folder / "ray"))
    run.failure_config = FailureConfig(max_failures=resources.max_failures)
    trainer = _trainer()
    _to_its_end(lambda: trainer(loop, scaling_config=scaling, run_config=run).fit(), resources.max_failures)


def _trainer() -> Any:
    """Ray's TorchTrainer without its cleaner of placement groups, which end with this process anyway.

    The cleaner queries Ray's dashboard. Without a dashboard it delays the end of every training.
    """
    from ray.train.torch import TorchTrainer
    from ray.train.v2._internal.callbacks.placement_group_callback import PlacementGroupCleanerCallback

    class Trainer(TorchTrainer):
        def _create_default_callbacks(self) -> list[Any]:
            every = super()._create_default_callbacks()  # type: ignore[misc]
            return [callback for callback in every if not isinstance(callback, PlacementGroupCleanerCallback)]

    return Trainer


def _to_its_end(fit: Callable[[], Any], max_failures: int) -> None:
    """Run Ray's trainer. Raises InputError with the error that the loop returned, or with Ray's own reasons."""
    from ray.train import ControllerError, WorkerGroupError

    tries_left = max_failures
    while True:
        try:
            message = fit().return_value
            break
        except WorkerGroupError as error:
            reasons = {str(failure).strip().splitlines()[-1] for failure in error.worker_failures.values()}
            raise InputError(f"training failed {max_failures + 1} times: {'; '.join(reasons)}") from error
        except ControllerError:  # Ray gives up if a worker dies while its group starts; resume from the checkpoint
            if not tries_left:
                raise
            tries_left -= 1
    if message:
        raise InputError(message)


def _shared(job: Job) -> Callable[[], Job]:
    """Put the job into Ray's object store; return a function that fetches it in a worker."""
    workers.start()
    import ray

    handle = ray.put(job)

    def get() -> Job:
        job: Job = ray.get(handle)
        unpickled.note(job.model)
        return job

    return get
