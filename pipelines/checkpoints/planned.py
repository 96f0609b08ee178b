"""A model built from a config without memory for weights, to check that its weights can be those in a file.

A damaged config may have a size that no memory can hold, or too many layers to build in a day.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

from pipelines.core.errors import InputError, shown
from pipelines.models import shapes

# word in a config key -> maximum: these numbers control Python loops, at the latest when a model is built
COUNTED = {"layer": 10_000, "num_labels": 1_000_000}
MOST = 2**31  # maximum of other numbers in a config
MORE = 50  # maximum tensors of a model per tensor of the file: layers may share weights
FREE = 2**24  # number of weights and buffers that may be missing in the file: 64 MiB


def require_sizes(values: Any, place: str, key: str = "") -> None:
    """Raise InputError for a number in a config that is too large for any model; `place` begins the message."""
    if isinstance(values, dict):
        for name, value in values.items():
            require_sizes(value, place, str(name))
    elif isinstance(values, list):
        for value in values:
            require_sizes(value, place, key)
    elif type(values) is int:
        words = COUNTED.items() if "." not in key else ()  # keys with a dot are names of matrices
        most = min((most for word, most in words if word in key), default=MOST)
        if abs(values) > most:
            raise InputError(f"{place} has {shown(key)} {shown(values)}; at most {most:,} is possible")


def model(build: Callable[[], PreTrainedModel], place: str, tensors: int, most: int) -> PreTrainedModel:
    """The result of `build` on the meta device, with the shapes in its config (`models.shapes`).

    Raises InputError if the model has more than `most` weights, or far more tensors than the file; too many
    tensors raise it while they are built.

    Args:
        place: begins the error message.
        tensors: number of tensors in the file.
        most: maximum number of weights, apart from FREE.
    """
    try:
        with _Counted(MORE * (tensors + MORE)), torch.device("meta"):
            built = build()
            shapes.take(built)
    except InputError as error:
        raise InputError(f"{place} {error}") from None
    size = sum(tensor.numel() for tensor in (*built.parameters(), *built.buffers()))
    if size > most + FREE:
        raise InputError(f"{place} requires {size:,} weights; its file has at most {most:,}")
    return built


class _Counted(TorchFunctionMode):
    """A block in which more than `most` new tensors raise InputError."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most, self.made = most, 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.made += function is torch.empty
        if self.made > self.most:
            raise InputError(f"requires more than {self.most:,} tensors; its file has far fewer")
        return function(*args, **(kwargs or {}))
