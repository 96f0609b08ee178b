"""The training loop of fine-tuning, of pretraining and of every compression method that trains."""

import hashlib
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from pipelines.acceleration import apply, attention_kernels, precision, sequence_packing
from pipelines.core import seeding
from pipelines.core.errors import InputError
from pipelines.core.progress import progress, say
from pipelines.entries.parts.fit import Fit
from pipelines.models import backbones
from pipelines.models.batch import Batch
from pipelines.training import optim, parts, resuming, strategies, unread
from pipelines.training.batches import Batches

# (model, batch, step) -> the summed loss, and the count to divide it by
Loss = Callable[[nn.Module, Batch, int], tuple[torch.Tensor, torch.Tensor]]
Groups = Callable[[nn.Module], list[optim.Group]]
Heartbeat = Callable[[dict[str, float]], None]
EachStep = Callable[[nn.Module, int, int], None]  # (model, next step, number of steps)
AfterStep = Callable[[nn.Module], None]
Watch = Callable[[nn.Module], dict[str, float]]  # scores of the model in its current state
CURVE_POINTS = 100  # points of the loss curve of a run


@dataclass
class Job:
    """One training: everything that `train` needs, in any process that runs it."""

    model: nn.Module
    loss: Loss
    batches: Batches
    params: Fit
    groups: Groups | None
    checkpoint: Path  # one file, replaced during training; at the end it holds the final weights
    checkpoint_seconds: float
    precision: str = "auto"  # as in Resources
    watch: Watch | None = None
    select: str = ""  # the score of `watch` by which the best weights are kept; "" keeps the last
    each_step: EachStep | None = None  # called before every step, such as a schedule of replacements
    after_step: AfterStep | None = None  # called after every step, in all workers, to merge what they observed
    depends: str = ""  # digest of what loss and each_step depend on besides model and batch, such as a teacher
    accelerated: apply.Names | None = ()  # accelerations that are already on; None if all are switched off

    def watches(self, step: int) -> bool:
        """Return whether `watch` is due after `step` steps: at the ends of `evaluations` even intervals."""
        steps, count = len(self.batches), self.params.evaluations
        return self.watch is not None and step * count // steps > (step - 1) * count // steps

    @property
    def halved(self) -> Path:
        """A file with the fingerprint of the job whose batches in `accumulate` parts did not fit into memory."""
        return self.checkpoint.with_suffix(".halved")

    @property
    def compares_rows(self) -> bool:
        """Return whether the loss compares the rows of a batch with one another, so that a batch has only one part."""
        return getattr(self.loss, "compares_rows", False)

    def fingerprint(self) -> str:
        """Digest of weights, batches, params and `depends`: a checkpoint is valid only for its job."""
        of = f"{self.batches.fingerprint()} {self.params.model_dump_json()} {self.depends}"
        digest = hashlib.sha256(of.encode())
        digest.update(backbones.digest(self.model).encode())
        return digest.hexdigest()


class _WithLoss(nn.Module):
    """Model and loss as one module, so that DistributedDataParallel sees the whole forward pass."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, batch: Batch, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.loss(self.model, batch, step)


def train(job: Job, heartbeat: Heartbeat, fingerprint: str) -> None:
    """Run `job` to its end, from its checkpoint if there is one; rank 0 writes the result into the checkpoint."""
    training = Training(job, fingerprint)
    with apply.to_steps(training.model, job.precision, job.accelerated) as on:
        training.attention = on.attention
        if training.rank == 0:
            for line in filter(None, (apply.told(on.names), precision.told(job.precision))):
                say(line)
        training.run(heartbeat)


class Training:
    """One worker's part of a job."""

    def __init__(self, job: Job, fingerprint: str) -> None:
        self.job, self.fingerprint = job, fingerprint
        self.rank, self.world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.waits = self.device.type == "cpu"  # a GPU computes while the host prepares the next step
        self.model = job.model.to(self.device)
        self.attention: attention_kernels.Attention | attention_kernels.ModelKernel = attention_kernels.ModelKernel()
        groups = job.groups(self.model) if job.groups else optim.all_parameters(self.model, job.params.learning_rate)
        self.optimizer = optim.optimizer(self.model, groups, job.params)
        self.trained = [p for group in self.optimizer.param_groups for p in group["params"]]
        self.peaks = [group["lr"] for group in self.optimizer.param_groups]
        self.parts = job.params.accumulate * (2 if resuming.marked(job.halved, fingerprint) else 1)
        self.unread = unread.Unread()
        self.now = resuming.resume(job.checkpoint, fingerprint, self.model, self.optimizer, self.device)
        self.saved_file = self.now.best_file  # the best weights of the last checkpoint, which must stay
        self.wrapped: nn.Module = _WithLoss(self.model, job.loss)
        if self.world > 1:
            # a loss may not use every parameter, such as a pooler that the head does not read; buffers hold what
            # each worker saw of its own rows
            self.wrapped = nn.parallel.DistributedDataParallel(
                self.wrapped, find_unused_parameters=True, broadcast_buffers=False
            )

    def run(self, heartbeat: Heartbeat) -> None:
        """Run the remaining steps; write checkpoints at intervals and at the end."""
        strategies.train_mode(self.model)
        job, now, steps = self.job, self.now, len(self.job.batches)
        tokens, started = 0, time.monotonic()
        saved = started
        if now.step and self.rank == 0:
            say(f"{job.checkpoint}: training resumes after step {now.step:,}")
        with progress("training", steps, "steps", now.step) as advance:
            while now.step < steps:
                batch = job.batches[now.step]
                losses, due = self.step(batch, time.monotonic() - saved >= job.checkpoint_seconds)
                tokens += batch.get("attention_mask", next(iter(batch.values()))).numel()
                now.step += 1
                if self._note(losses):
                    speed = tokens / (time.monotonic() - started)
                    advance(now.step, f"loss {now.curve[-1][1]['loss']:.4f}, {speed:,.0f} tokens/s")
                if job.watches(now.step) and self._evaluate():
                    now.step = steps
                if due or now.step == steps:
                    if self.rank == 0:
                        self._save()
                    heartbeat({"step": now.step, "loss": losses[max(losses)]})
                    saved = time.monotonic()

    def _note(self, losses: dict[int, float]) -> bool:
        """Add the losses of the steps that were read to the curve; return whether it has a new point."""
        now, points = self.now, len(self.now.curve)
        for step, loss in losses.items():
            del self.unread[step]
            now.seen.append(loss)
            if self._at_point(step + 1):
                now.curve.append([step + 1, {"loss": sum(now.seen) / len(now.seen)}])
                now.seen = []
        return len(now.curve) > points

    def step(self, batch: Batch, due: bool = False) -> tuple[dict[int, float], bool]:
        """Update the weights from one batch; if a GPU's memory does not hold it, compute it in twice as many parts.

        Returns the mean losses of the steps that are read now, and whether any worker found a checkpoint due. Workers
        agree on it here, because all must call Ray's report equally often. If no loss is read at this step, it is
        False, and the host does not wait for a GPU.
        """
        while True:
            with suppress(torch.OutOfMemoryError):  # its traceback keeps the memory in use, until it is dropped
                read = self._gradients(batch, due)
                break
            self._halve()
        self._move()
        return read

    def _gradients(self, batch: Batch, due: bool) -> tuple[dict[int, float], bool]:
        """Compute the gradients of one update: the workers share the batch, and each computes its share in `parts`."""
        params, step = self.job.params, self.now.step
        for group, peak in zip(self.optimizer.param_groups, self.peaks, strict=True):
            group["lr"] = peak * optim.factor(step, len(self.job.batches), params)
        self._seed(seeding.derive(params.seed, "dropout", step, self.rank))
        if self.job.each_step:
            self.job.each_step(self.model, step, len(self.job.batches))
        self.optimizer.zero_grad(set_to_none=True)
        reads, mine = self._reads(step), parts.of(batch, self.rank, self.world, self.parts)
        alone = len(mine) == self.world == 1  # then the count is known before the backward pass
        if expect := getattr(self.job.loss, "expect", None):
            expect(None if alone else batch)
        sums = self._backward(mine, step, alone)
        if self.world > 1:
            sums = torch.cat([sums, sums.new_full((1,), due and reads)])
            dist.all_reduce(sums)
            due = reads and bool(sums[2])
        everything = sums[1].clamp(min=1)
        self.unread[step] = sums[0] / everything
        losses = self.unread.read(self.job.batches) if reads else {}
        # DistributedDataParallel averages gradients over workers: undo that, and divide by the count of all workers
        scale = optim.scale if self.waits else optim.scale_there
        scale(self.trained, 1.0 if alone else self.world / everything, params.max_grad_norm)
        return losses, due and reads

    def _move(self) -> None:
        """Move the weights by their gradients, once: a second attempt would move some of them twice."""
        try:
            self.optimizer.step()
        except torch.OutOfMemoryError as error:
            advice = "the optimizer's state does not fit into memory; set optimizer to sgd, or train a smaller model"
            raise (torch.OutOfMemoryError(advice) if self.world > 1 else InputError(advice)) from error
        if self.job.after_step:
            self.job.after_step(self.model)

    def _backward(self, mine: list[parts.Part], step: int, alone: bool) -> torch.Tensor:
        """Add up the gradients of the parts; return the summed loss and the count, (2,) float64 on the device."""
        sums = torch.zeros(2, dtype=torch.float64, device=self.device)
        for here, counts in mine:
            self.attention.choose(here)
            there = parts.on_device(here, self.device)
            sequence_packing.expect(self.model, there, here)
            with precision.autocast(self.job.precision):
                total, count = self.wrapped(there, step)
            if not counts:
                total, count = 0 * total, 0 * count
            (total.float() / count.clamp(min=1) if alone else total.float()).backward()
            sums += torch.stack([total.detach().double(), count.double()])
        return sums

    def _reads(self, step: int) -> bool:
        """Return whether the host waits for this step's loss: always on a CPU, on a GPU if something depends on it."""
        job, after = self.job, step + 1
        return self.waits or after % unread.MOST == 0 or after == len(job.batches) or job.watches(after)

    def _seed(self, number: int) -> None:
        """Seed this device alone: torch.manual_seed also stores a stack trace for every kind of absent device."""
        torch.default_generator.manual_seed(number)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(number)

    def _halve(self) -> None:
        """Halve the rows of a part, once: more halvings would only hide a wrong batch size."""
        rows, whole = self.job.params.batch_size / self.world / self.parts, self.job.compares_rows
        if whole or self.job.halved.exists():
            advice = f"{rows:g} rows at once do not fit into memory; reduce batch_size"
            advice += " (the objective compares all rows of a batch)" if whole else " or raise accumulate"
            raise torch.OutOfMemoryError(advice) if self.world > 1 else InputError(advice)
        self.job.halved.write_text(self.fingerprint)
        self.parts *= 2
        say(f"step {self.now.step + 1}: {rows:g} rows at once do not fit into memory; half as many from here on")
        if self.world > 1:  # the others wait for this worker's gradients: all restart from the checkpoint
            raise torch.OutOfMemoryError("half as many rows after the restart")
        self.optimizer.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()

    def _at_point(self, step: int) -> bool:
        """Return whether the curve has a point at `step`: one of CURVE_POINTS, a call of `watch`, or the end."""
        steps = len(self.job.batches)
        return self.job.watches(step) or step % max(1, steps // CURVE_POINTS) == 0 or step == steps

    def _evaluate(self) -> bool:
        """Call `watch`, and save the weights if they have the best score; return whether training ends here.

        It ends if the score has not improved for `patience` evaluations. Only the first worker has the scores.
        """
        now, job = self.now, self.job
        if self.rank == 0:
            assert job.watch is not None
            scores = watched(self.model, job.watch)
            now.curve[-1][1] |= scores
            now.stale += bool(job.select)
            if job.select and scores[job.select] > now.best:
                now.best, now.stale, now.best_file = scores[job.select], 0, 1 - self.saved_file
                resuming.write(self.model.state_dict(), resuming.best_weights(job.checkpoint, now, self.fingerprint))
        if self.world > 1:
            stale = torch.tensor(now.stale, device=self.device)
            dist.broadcast(stale, 0)
            now.stale = int(stale)
        return 0 < job.params.patience <= now.stale

    def _save(self) -> None:
        """Write a checkpoint; the last one holds the best weights. Only at the last one a full disk raises OSError."""
        job, last = self.job, self.now.step == len(self.job.batches)
        if job.select and last:
            best = resuming.best_weights(job.checkpoint, self.now, self.fingerprint)
            self.model.load_state_dict(torch.load(best, map_location=self.device, weights_only=True))
        try:
            resuming.save(job.checkpoint, self.now, self.model, self.optimizer, self.fingerprint)
            self.saved_file = self.now.best_file
        except OSError as error:
            if last:
                raise
            say(f"{job.checkpoint}: not written: {error.strerror}; training continues, the previous checkpoint stays")


def watched(model: nn.Module, watch: Watch) -> dict[str, float]:
    """The scores of `watch` for the model in eval mode; afterwards the mode and the random state are as before."""
    model.eval()
    with torch.random.fork_rng(), torch.inference_mode():
        torch.manual_seed(0)
        scores = watch(model)
    strategies.train_mode(model)
    return scores
