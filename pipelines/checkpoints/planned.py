"""The model that a config asks for, built without memory: whether its weights can be those in a file.

A damaged config may ask for a size that no memory holds, or for more layers than can be built in a day.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

from pipelines.core.errors import InputError, shown
from pipelines.models import shapes

# of a config: a number whose key has this word is counted in Python, at the latest when a model is built
COUNTED = {"layer": 10_000, "num_labels": 1_000_000}
MOST = 2**31  # no other number of a config is larger
MORE = 50  # times as many tensors as a file has: layers may share what stands in it once
FREE = 2**24  # weights and buffers that no file need have: 64 MiB


def require_sizes(values: Any, place: str, key: str = "") -> None:
    """Raise InputError for a number in a config that is larger than any model's; `place` begins the message."""
    if isinstance(values, dict):
        for name, value in values.items():
            require_sizes(value, place, str(name))
    elif isinstance(values, list):
        for value in values:
            require_sizes(value, place, key)
    elif type(values) is int:
        words = COUNTED.items() if "." not in key else ()  # others are names of matrices
        most = min((most for word, most in words if word in key), default=MOST)
        if abs(values) > most:
            raise InputError(f"{place} has {shown(key)} {shown(values)}; {most:,} is the most")


def model(build: Callable[[], PreTrainedModel], place: str, tensors: int, most: int) -> PreTrainedModel:
    """The model that `build` builds, with the shapes that its config notes, on no device.

    Raises InputError if the model has more than `most` weights, or far more tensors than the file. The error comes
    before all tensors are built.

    Args:
        place: begins the message.
    """
    try:
        with _Counted(MORE * (tensors + MORE)), torch.device("meta"):
            built = build()
            shapes.take(built)
    except InputError as error:
        raise InputError(f"{place} {error}") from None
    size = sum(tensor.numel() for tensor in (*built.parameters(), *built.buffers()))
    if size > most + FREE:
        raise InputError(f"{place} asks for {size:,} weights; its file has no more than {most:,}")
    return built


class _Counted(TorchFunctionMode):
    """Inside the block at most so many tensors are made."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most, self.made = most, 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.made += function is torch.empty
        if self.made > self.most:
            raise InputError(f"asks for more than {self.most:,} tensors; its file has far fewer")
        return function(*args, **(kwargs or {}))
