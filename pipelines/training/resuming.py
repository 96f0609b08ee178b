"""Checkpoints: one file, replaced atomically, and valid only for the job that wrote it."""

import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pipelines.core.errors import InputError, one_line
from pipelines.core.progress import say

Curve = list[list[Any]]  # [step, {name: number}]

_TOLD: set[tuple[Path, str]] = set()  # checkpoints already reported as unusable: each is read twice


@dataclass
class Progress:
    """The progress of a training. A checkpoint stores it with the weights."""

    step: int = 0  # the next step
    curve: Curve = field(default_factory=list)
    seen: list[float] = field(default_factory=list)  # losses since the curve's last point
    best: float = float("-inf")  # score of the best weights so far
    stale: int = 0  # evaluations since the best score
    best_file: int = 0  # 0 or 1: the best weights are in one of two files, so those of the last checkpoint stay


def save(path: Path, now: Progress, model: nn.Module, optimizer: torch.optim.Optimizer, fingerprint: str) -> None:
    """Replace the checkpoint at `path`. Raises OSError, and keeps the old one, if it cannot be written."""
    weights = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    write({**asdict(now), **weights, "fingerprint": fingerprint}, path)


def best_weights(path: Path, now: Progress, fingerprint: str) -> Path:
    """The file of the best weights so far, beside the checkpoint at `path`; no other job writes it."""
    return path.with_suffix(f".best-{fingerprint[:8]}-{now.best_file}.pt")


def load(path: Path, fingerprint: str, device: torch.device | str = "cpu") -> dict[str, Any] | None:
    """The state in `path` if the job with this fingerprint wrote it; None if there is no file, or another job's.

    Raises InputError if the file cannot be read.
    """
    if not path.is_file():
        return None
    try:
        state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
        if (
            not isinstance(state, dict)
            or not {"fingerprint", "model", "optimizer", *asdict(Progress())} <= state.keys()
        ):
            raise ValueError("it holds something else")
    except Exception as error:  # a cut or changed file raises different errors, depending on the place
        raise InputError(
            f"{path}: no checkpoint can be read from it ({one_line(error)}); remove it to start anew"
        ) from None
    if state["fingerprint"] == fingerprint:
        return state
    if (path, fingerprint) not in _TOLD:
        _TOLD.add((path, fingerprint))
        say(f"{path}: a checkpoint of other params, data or weights; training starts from the beginning")
    return None


def resume(
    path: Path, fingerprint: str, model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device
) -> Progress:
    """Load the checkpoint, if there is one, into model and optimizer; return its progress."""
    state = load(path, fingerprint, device)
    if state is None:
        return Progress()
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return Progress(**{entry.name: state[entry.name] for entry in fields(Progress)})


def marked(path: Path, fingerprint: str) -> bool:
    """Return whether the mark at `path` is of the job with this fingerprint; another job's mark is removed."""
    try:
        if path.read_bytes() == fingerprint.encode():
            return True
    except FileNotFoundError:
        return False
    path.unlink(missing_ok=True)  # several workers may find it
    return False


def write(state: dict[str, Any], path: Path) -> None:
    """Write a temporary file, then rename it. torch gets a file object: with a path it hides an OSError's reason."""
    aside = path.with_suffix(".partial")
    try:
        with aside.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())  # a crash of the machine must not leave half of the file under the final name
        os.replace(aside, path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise


def check_folder(folder: Path) -> None:
    """Raise InputError, before any work, if no checkpoint can be written into `folder`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.write_bytes(b"x")
        probe.unlink()
    except OSError as error:
        raise InputError(f"{folder}: no checkpoint can be written there: {error.strerror}") from None
