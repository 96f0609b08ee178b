"""The table of formats of a model's weights: how each is saved and loaded. Nothing is pickled."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from pipelines.checkpoints import loading, quantized
from pipelines.checkpoints.loading import CONFIG as CONFIG
from pipelines.checkpoints.loading import WEIGHTS as WEIGHTS


@dataclass(frozen=True)
class Format:
    """One way to keep a model in a folder.

    Attributes:
        name: its name; "" is Hugging Face's own format.
        trains: whether a model in this format can be trained further.
        holds: whether a model in memory is to be saved in this format.
        save: writes config and weights into an existing folder.
        load: returns the folder's model, of transformers' class `auto`.
    """

    name: str
    trains: bool
    holds: Callable[[nn.Module], bool]
    save: Callable[[PreTrainedModel, Path], None]
    load: Callable[[Path, Any], PreTrainedModel]

    @property
    def mark(self) -> str:
        """The key of config.json that marks the format; Hugging Face's own has none."""
        return self.name and f"bertline_{self.name}"


def _save_native(model: PreTrainedModel, folder: Path) -> None:
    model.save_pretrained(folder)


def _load_native(folder: Path, auto: Any) -> PreTrainedModel:
    model, random = loading.opened(auto, folder)
    loading.require_whole(folder, random)
    return model


NATIVE = Format("", True, lambda model: True, _save_native, _load_native)
FORMATS = (  # the first that fits
    Format("int8", False, quantized.is_int8, quantized.save_int8, quantized.load_int8),
    Format("qdq", False, quantized.is_qdq, quantized.save_qdq, quantized.load_qdq),
    Format("packed", False, quantized.is_packed, quantized.save_packed, quantized.load_packed),
    NATIVE,
)


def of_model(model: nn.Module) -> Format:
    """The format in which `model` is to be saved."""
    return next(each for each in FORMATS if each.holds(model))


def of_config(settings: Mapping[str, Any]) -> Format:
    """The format of a folder with this config.json."""
    return next(each for each in FORMATS if not each.mark or each.mark in settings)
