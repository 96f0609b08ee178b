"""Fine-tuning on a GPU as run_glue does it: transformers.Trainer, or a loop of the same operations without it."""

import tempfile
import time
from importlib.util import find_spec
from typing import Any

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments, default_data_collator, get_scheduler

from pipelines.training.batches import Encoded

RATE = 5e-5
CUDA = torch.cuda.is_available()


class Timer:
    """Seconds from the beginning of one step to the end of another; the device has done all work at both."""

    def __init__(self, first: int, steps: int) -> None:
        self.first, self.steps, self.done, self.start, self.seconds = first, steps, 0, 0.0, 0.0

    def begin(self, step: int) -> None:
        if step == self.first:
            self.start = now()

    def end(self) -> None:
        self.done += 1
        if self.done == self.steps:
            self.seconds = now() - self.start


def now() -> float:
    """The time at which the device has done all work so far."""
    if CUDA:
        torch.cuda.synchronize()
    return time.perf_counter()


def peer(model: Any, data: Encoded, batch: int, length: int, warm: int, steps: int) -> float:
    """Real tokens per second of `steps` steps after `warm` others, on rows padded to `length`."""
    padded = rows(data, length)
    timer = Timer(warm, warm + steps)
    if find_spec("accelerate"):
        by_trainer(model, padded, batch, timer)
    else:
        by_loop(model, padded, batch, timer)
    return steps * batch * float(data.lengths.mean()) / timer.seconds


def rows(data: Encoded, length: int) -> list[dict[str, Any]]:
    """Rows as run_glue's tokenizer leaves them in a Dataset, padded to `length`."""
    padded_rows = []
    for i, (start, end) in enumerate(zip(data.offsets, data.offsets[1:], strict=False)):
        rest = length - int(end - start)
        ids = data.ids[start:end].tolist() + [0] * rest
        mask = [1] * (length - rest) + [0] * rest
        padded_rows.append({"input_ids": ids, "attention_mask": mask, "token_type_ids": [0] * length})
        padded_rows[-1]["label"] = int(data.labels[i])
    return padded_rows


class _Timed(TrainerCallback):
    def __init__(self, timer: Timer) -> None:
        self.timer = timer

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.timer.begin(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.timer.end()


def by_trainer(model: Any, padded: list[dict[str, Any]], batch: int, timer: Timer) -> None:
    """Trainer with run_glue's arguments and collator."""
    with tempfile.TemporaryDirectory() as place:
        arguments = TrainingArguments(
            place, max_steps=timer.steps, per_device_train_batch_size=batch, learning_rate=RATE, bf16=CUDA,
            report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=not CUDA, seed=1,
        )  # fmt: skip
        Trainer(
            model, arguments, train_dataset=padded, data_collator=default_data_collator, callbacks=[_Timed(timer)]
        ).train()


def by_loop(model: Any, padded: list[dict[str, Any]], batch: int, timer: Timer) -> None:
    """What Trainer does in a step (transformers 5.23): its loader, autocast, nan filter, clipping, schedule."""
    device = torch.device("cuda" if CUDA else "cpu")
    model.to(device).train()
    loader: Any = torch.utils.data.DataLoader(
        padded, batch, shuffle=True, collate_fn=default_data_collator, pin_memory=CUDA
    )
    decays = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decays}, {"params": others}], lr=RATE, weight_decay=0.0, fused=True
    )  # run_glue's weight decay is 0
    schedule = get_scheduler("linear", optimizer, 0, timer.steps)
    total = torch.zeros((), device=device)
    for step, cpu_batch in enumerate(loader):
        timer.begin(step)
        inputs = {name: tensor.to(device, non_blocking=True) for name, tensor in cpu_batch.items()}
        with torch.autocast(device.type, torch.bfloat16, enabled=CUDA):
            loss = model(**inputs).loss
        loss.backward()
        batch_loss = loss.detach()
        total = total if torch.isnan(batch_loss) or torch.isinf(batch_loss) else total + batch_loss
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        model.zero_grad()
        timer.end()
        if timer.done == timer.steps:
            return
