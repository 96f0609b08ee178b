"""The one training loop: fine-tuning, pretraining and every compression method that trains run through it."""

import hashlib
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from transformers import PreTrainedModel

from pipelines.core import seeding
from pipelines.core.errors import InputError
from pipelines.core.params import Fit
from pipelines.core.progress import progress
from pipelines.models.batch import IGNORE, Batch
from pipelines.training import optim, strategies
from pipelines.training.batches import Batches

Loss = Callable[[nn.Module, Batch], tuple[torch.Tensor, torch.Tensor]]  # sum over what is learned, and its count
Groups = Callable[[nn.Module], list[optim.Group]]
Heartbeat = Callable[[dict[str, float]], None]
Watch = Callable[[nn.Module], dict[str, float]]  # scores of the model as it is
Curve = list[list[Any]]  # [step, {name: number}]
CURVE_POINTS = 100  # of the loss curve that a run keeps
WATCHED = 10  # of them, how many also have what `watch` says


@dataclass
class Job:
    """A training, whole: what `train` needs in any process that runs it."""

    model: nn.Module
    loss: Loss
    batches: Batches
    params: Fit
    groups: Groups | None
    checkpoint: Path  # one file, replaced as training goes on; it holds the finished weights at the end
    checkpoint_seconds: float
    precision: str = "auto"  # of Resources
    watch: Watch | None = None

    def fingerprint(self) -> str:
        """Digest of the initial weights, the batches and the params: a checkpoint serves only its own job."""
        digest = hashlib.sha256(f"{self.batches.fingerprint()} {self.params.model_dump_json()}".encode())
        for name, tensor in self.model.state_dict().items():
            digest.update(name.encode())
            digest.update(
                tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes() if tensor.dim() else b""
            )
        return digest.hexdigest()


class _WithLoss(nn.Module):
    """Model and loss as one module, so that DistributedDataParallel sees the whole forward pass."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        return self.loss(self.model, batch)


def train(job: Job, heartbeat: Heartbeat, fingerprint: str) -> None:
    """Run `job` to its end, from its checkpoint if there is one; rank 0 leaves the result in the checkpoint."""
    with plain_attention(job.model):
        _train(job, heartbeat, fingerprint)


def _train(job: Job, heartbeat: Heartbeat, fingerprint: str) -> None:
    rank, world = _place()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = job.model.to(device)
    groups = job.groups(model) if job.groups else optim.all_parameters(model, job.params.learning_rate)
    optimizer = optim.optimizer(groups, job.params)
    peaks = [group["lr"] for group in optimizer.param_groups]
    first, curve, seen = _resume(job, model, optimizer, fingerprint, device)
    wrapped: nn.Module = _WithLoss(model, job.loss)
    if world > 1:
        wrapped = nn.parallel.DistributedDataParallel(wrapped)
    strategies.train_mode(model)
    steps, tokens, started = len(job.batches), 0, time.monotonic()
    saved = started
    with progress("training", steps, "steps") as advance:
        for step in range(first, steps):
            for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                group["lr"] = peak * optim.factor(step, steps, job.params)
            due = time.monotonic() - saved >= job.checkpoint_seconds or step + 1 == steps
            batch = job.batches[step]
            loss, due = _step(wrapped, optimizer, job, step, batch, due, device)
            tokens += batch["input_ids"].numel()
            seen.append(loss)
            if (step + 1) % max(1, steps // CURVE_POINTS) == 0 or step + 1 == steps:
                curve.append([step + 1, {"loss": sum(seen) / len(seen)}])
                seen = []
                speed = tokens / (time.monotonic() - started)
                advance(step + 1, f"loss {curve[-1][1]['loss']:.4f}, {speed:,.0f} tokens/s")
                if job.watch and rank == 0 and (len(curve) % (CURVE_POINTS // WATCHED) == 0 or step + 1 == steps):
                    curve[-1][1] |= watched(model, job.watch)
            if due:
                if rank == 0:
                    so_far = {"step": step + 1, "curve": curve, "seen": seen, "fingerprint": fingerprint}
                    _save(job, model, optimizer, so_far)
                heartbeat({"step": step + 1, "loss": loss})
                saved = time.monotonic()


@contextmanager
def plain_attention(model: nn.Module) -> Iterator[None]:
    """Inside the block, on a CPU, attention without a fused kernel: torch's is slow there on the way back."""
    parts = [m for m in model.modules() if isinstance(m, PreTrainedModel) and m.config._attn_implementation]
    before = [part.config._attn_implementation for part in parts]
    if not torch.cuda.is_available():
        for part in parts:
            part.set_attn_implementation("eager")
    yield
    for part, attention in zip(parts, before, strict=True):
        part.set_attn_implementation(attention)


def watched(model: nn.Module, watch: Watch) -> dict[str, float]:
    """What `watch` says of the model as it would predict; training goes on as if nobody had looked."""
    model.eval()
    with torch.random.fork_rng(), torch.inference_mode():
        torch.manual_seed(0)
        found = watch(model)
    strategies.train_mode(model)
    return found


def _step(
    wrapped: nn.Module,
    optimizer: torch.optim.Optimizer,
    job: Job,
    step: int,
    batch: Batch,
    due: bool,
    device: torch.device,
) -> tuple[float, bool]:
    """One update from one batch, shared out over the workers.

    Returns the mean loss over all of the batch, and whether any worker found a checkpoint due: the workers agree on
    that here, because Ray's report must be called by all of them equally often.
    """
    rank, world = _place()
    torch.manual_seed(seeding.derive(job.params.seed, "dropout", step, rank))
    batch = {name: tensor.to(device) for name, tensor in _share(batch, rank, world).items()}
    bf16 = job.precision == "bf16" or (job.precision == "auto" and device.type == "cuda")
    with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
        total, count = wrapped(batch)
    sums = torch.stack([total.detach().double(), count.double(), torch.tensor(float(due), device=device).double()])
    if world > 1:
        dist.all_reduce(sums)
    everything = sums[1].clamp(min=1)
    loss = float(sums[0] / everything)
    if not math.isfinite(loss):
        raise InputError(f"step {step + 1}: the loss is {loss}; a smaller learning_rate, or a max_grad_norm, may help")
    optimizer.zero_grad(set_to_none=True)
    # DistributedDataParallel averages gradients over workers: undo that, and divide by all that was learned from
    (total * world / everything).float().backward()
    if job.params.max_grad_norm:
        trained = [p for group in optimizer.param_groups for p in group["params"]]
        nn.utils.clip_grad_norm_(trained, job.params.max_grad_norm)
    optimizer.step()
    return loss, bool(sums[2])


def _place() -> tuple[int, int]:
    """This worker's rank and how many there are."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def _share(batch: Batch, rank: int, world: int) -> Batch:
    """This worker's rows of the batch; a worker for which none is left gets one that is not learned from."""
    if world == 1:
        return batch
    if rank < len(batch["labels"]):
        return {name: tensor[rank::world] for name, tensor in batch.items()}
    learned = ("labels", "order")
    return {
        name: tensor[:1] if name not in learned else torch.full_like(tensor[:1], IGNORE)
        for name, tensor in batch.items()
    }


def _save(job: Job, model: nn.Module, optimizer: torch.optim.Optimizer, progress_so_far: dict[str, Any]) -> None:
    aside = job.checkpoint.with_suffix(".partial")
    torch.save({**progress_so_far, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, aside)
    os.replace(aside, job.checkpoint)


def load_checkpoint(path: Path, fingerprint: str, device: torch.device | str = "cpu") -> dict[str, Any] | None:
    """The state in `path` if it was written by the job with this fingerprint; an unfinished or foreign file is none."""
    if not path.is_file():
        return None
    state = torch.load(path, map_location=device, weights_only=True)
    return state if state["fingerprint"] == fingerprint else None


def _resume(
    job: Job, model: nn.Module, optimizer: torch.optim.Optimizer, fingerprint: str, device: torch.device
) -> tuple[int, Curve, list[float]]:
    """The next step, the loss curve so far, and the losses since its last point."""
    state = load_checkpoint(job.checkpoint, fingerprint, device)
    if state is None:
        return 0, [], []
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"], state["curve"], state["seen"]
