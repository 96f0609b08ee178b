"""The table of formats of a model's weights, with functions that save and load each. Nothing is pickled."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from pipelines.checkpoints import loading, quantized
from pipelines.checkpoints.loading import OWN_WEIGHTS, WEIGHTS
from pipelines.checkpoints.loading import weights as weights
from pipelines.core.opened_folder import CONFIG, OpenedFolder
from pipelines.models import shapes


@dataclass(frozen=True)
class Format:
    """One format of a model in a folder.

    Attributes:
        name: name of the format in files; "" is Hugging Face's own format.
        words: name of the format in messages.
        trains: whether a model in this format can be trained further.
        holds: returns whether a model in memory is to be saved in this format.
        save: writes config and weights into an existing folder.
        load: returns the folder's model, of transformers' class `auto`.
    """

    name: str
    words: str
    trains: bool
    holds: Callable[[nn.Module], bool]
    save: Callable[[PreTrainedModel, Path], None]
    load: Callable[[OpenedFolder, Any], PreTrainedModel]

    @property
    def mark(self) -> str:
        """The key of config.json that marks the format; "" for Hugging Face's own."""
        return self.name and f"bertline_{self.name}"

    @property
    def weights(self) -> str:
        """The name of its file of weights."""
        return OWN_WEIGHTS if self.name else WEIGHTS


def written(model: PreTrainedModel, folder: Path, **marks: Any) -> None:
    """Write config.json with the marks of a format, and the weights; shared weights are written once."""
    model.config.save_pretrained(folder)
    path = folder / CONFIG
    settings = json.loads(path.read_text(encoding="utf-8")) | {"architectures": [type(model).__name__]} | marks
    path.write_text(json.dumps(settings, ensure_ascii=False, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    loading.save_own(distinct(model), folder, settings)


def distinct(model: nn.Module) -> dict[str, torch.Tensor]:
    """The weights by name; shared weights only under their first name."""
    tensors: dict[str, torch.Tensor] = {}
    seen: set[tuple[int, torch.Size]] = set()
    for name, tensor in model.state_dict().items():
        place = (tensor.data_ptr(), tensor.shape)
        if tensor.numel() and place in seen:
            continue
        seen.add(place)
        tensors[name] = tensor.contiguous()
    return tensors


def filled(model: PreTrainedModel, folder: OpenedFolder) -> PreTrainedModel:
    """Fill `model` with the weights in `folder`. Raises InputError unless names and sizes are those of the model."""
    tensors = loading.tensors(weights(folder.path))
    wanted = model.state_dict()
    other = {name for name, tensor in tensors.items() if name not in wanted or wanted[name].shape != tensor.shape}
    loading.require_whole(folder, (distinct(model).keys() - tensors.keys()) | other)
    model.load_state_dict(tensors, strict=False)
    return model


def _load_reshaped(folder: OpenedFolder, auto: Any) -> PreTrainedModel:
    loading.require_its_config(folder)
    return filled(loading.built(auto, folder, loading.header(weights(folder.path)).numbers), folder)


def _save_native(model: PreTrainedModel, folder: Path) -> None:
    model.save_pretrained(folder)


def _load_native(folder: OpenedFolder, auto: Any) -> PreTrainedModel:
    model, random = loading.opened(auto, folder)
    loading.require_whole(folder, random)
    return model


NATIVE = Format("", "", True, lambda model: True, _save_native, _load_native)
RESHAPED = Format("reshaped", "reshaped", False, lambda model: bool(shapes.of(model)), written, _load_reshaped)
FLOATS = (NATIVE, RESHAPED)  # formats with float weights, which compression methods can change
FORMATS = (  # `of_model` takes the first that fits
    Format("int8", "int8", False, quantized.is_int8, quantized.save_int8, quantized.load_int8),
    Format("qdq", "int8 with fixed ranges", False, quantized.is_qdq, quantized.save_qdq, quantized.load_qdq),
    Format("packed", "packed", False, quantized.is_packed, quantized.save_packed, quantized.load_packed),
    RESHAPED,
    NATIVE,
)


def of_model(model: nn.Module) -> Format:
    """The format in which `model` is to be saved."""
    return next(each for each in FORMATS if each.holds(model))


def of_config(settings: Mapping[str, Any]) -> Format:
    """The format of a folder with this config.json."""
    inner = settings.get("encoder")  # the config of an encoder under a head of ours
    marks = {*settings, *(inner if isinstance(inner, dict) else ())}
    return next(each for each in FORMATS if not each.mark or each.mark in marks)
