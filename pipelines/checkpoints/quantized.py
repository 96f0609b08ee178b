"""Save and load models with rounded weights: config.json lists the layers, another file has their tensors."""

import json
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from pipelines.checkpoints import loading, rounded_parts
from pipelines.checkpoints.loading import weights
from pipelines.core.errors import InputError, one_line, shown
from pipelines.core.opened_folder import CONFIG, OpenedFolder
from pipelines.models import shapes
from pipelines.models.quantization import int8, matrices, packed, qdq

INT8, QDQ, PACKED = "bertline_int8", "bertline_qdq", "bertline_packed"  # keys of config.json: layers in each form
PARAMETERS = "parameters"  # in the weights' metadata: the number of parameters, which packed bytes do not reveal
REPEATED = "repeated"  # there too, if layers share weights: name -> name under which the values are written
ROUNDED = (int8.Int8Linear, int8.Int8Embedding, qdq.QdqLinear)

Parts = dict[str, torch.Tensor]


def is_qdq(model: nn.Module) -> bool:
    return any(isinstance(part, qdq.QdqLinear) for part in model.modules())


def is_packed(model: nn.Module) -> bool:
    return any(isinstance(part, packed.PackedWeight) for part in model.modules())


def is_int8(model: nn.Module) -> bool:
    return any(isinstance(part, ROUNDED) for part in model.modules()) and not is_qdq(model)


def save_int8(model: PreTrainedModel, folder: Path) -> None:
    """Save a model of int8 linear layers and embeddings."""
    _save(model, folder, INT8, _names(model))


def save_qdq(model: PreTrainedModel, folder: Path) -> None:
    """Save a model of int8 layers and embeddings with fixed ranges of the inputs of linear layers."""
    _save(model, folder, QDQ, _names(model))


def save_packed(model: PreTrainedModel, folder: Path) -> None:
    """Save a model of packed weights; config.json gets the shape and the grid of each."""
    _save(model, folder, PACKED, {name: [*each.shape, *vars(each.grid).values()] for name, each in _packed(model)})


def load_int8(folder: OpenedFolder, auto: Any) -> PreTrainedModel:
    """Load a model that `save_int8` wrote."""
    return _load_rounded(folder, auto, INT8, int8.Int8Linear)


def load_qdq(folder: OpenedFolder, auto: Any) -> PreTrainedModel:
    """Load a model that `save_qdq` wrote."""
    return _load_rounded(folder, auto, QDQ, qdq.QdqLinear)


def load_packed(folder: OpenedFolder, auto: Any) -> PreTrainedModel:
    """Load a model that `save_packed` wrote, with its weights unpacked.

    The result is a float model, as fast and as large in memory as any other.
    """

    def unpack(model: nn.Module, name: str, numbers: Any, parts: Parts) -> Parts:
        layer = name.removesuffix(".matrix")
        weight = rounded_parts.packed_weight(model.get_submodule(layer), numbers, parts).weight()
        return {f"{layer}.weight": weight}

    return _load(folder, auto, PACKED, unpack)


def parameters(model: nn.Module, repeated: Container[str] = ()) -> int:
    """The number of parameters before rounding and packing, without the matrices in `repeated`."""
    count = sum(each.numel() for each in model.parameters())
    for name, part in model.named_modules():
        if isinstance(part, packed.PackedWeight) and f"{name}.packed" not in repeated:
            count += part.shape[0] * part.shape[1]
        elif isinstance(part, ROUNDED) and f"{name}.weight" not in repeated:
            bias = getattr(part, "bias", None)
            count += part.weight.numel() + (0 if bias is None else bias.numel())
    return count


def _names(model: nn.Module) -> list[str]:
    """The names of rounded layers; a module that is used as several layers has several names."""
    return [name for name, part in model.named_modules(remove_duplicate=False) if isinstance(part, ROUNDED)]


def _packed(model: nn.Module) -> Iterator[tuple[str, packed.PackedWeight]]:
    every = model.named_modules(remove_duplicate=False)
    return ((name, part) for name, part in every if isinstance(part, packed.PackedWeight))


def _save(model: PreTrainedModel, folder: Path, mark: str, layers: Any) -> None:
    """Write config.json with `layers` under `mark`, and all tensors; shared values are written once."""
    model.config.save_pretrained(folder)
    path = folder / CONFIG
    settings = json.loads(path.read_text(encoding="utf-8")) | {mark: layers, "architectures": [type(model).__name__]}
    path.write_text(json.dumps(settings, ensure_ascii=False, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    tensors = {name: tensor.detach().clone().contiguous() for name, tensor in model.state_dict().items()}
    repeated = _repeated(model, tensors)
    notes = {PARAMETERS: str(parameters(model, repeated))}
    notes |= {REPEATED: json.dumps(repeated)} if repeated else {}
    once = {name: tensor for name, tensor in tensors.items() if name not in repeated}
    loading.save_own(once, folder, settings, **notes)


def _repeated(model: PreTrainedModel, tensors: Parts) -> dict[str, str]:
    """Names of tensors that repeat an earlier tensor -> the earlier name; {} if layers share no weights.

    Each layer rounds shared weights by itself, so they are found by their values. Tensors that layers do not share,
    such as the ranges of inputs, may differ.
    """
    if shapes.GROUPS not in shapes.of(model):
        return {}
    first: dict[tuple[Any, ...], str] = {}
    named = {name: (each.dtype, each.shape, each.cpu().numpy().tobytes()) for name, each in tensors.items()}
    return {name: first[values] for name, values in named.items() if first.setdefault(values, name) != name}


def _load_rounded(folder: OpenedFolder, auto: Any, mark: str, linear: type[nn.Module]) -> PreTrainedModel:
    def insert(model: nn.Module, name: str, _: Any, parts: Parts) -> Parts:
        layer = model.get_submodule(name)
        rounded_parts.require_int8(layer, parts, fixed=linear is qdq.QdqLinear)
        matrices.replace(model, name, (int8.Int8Embedding if isinstance(layer, nn.Embedding) else linear)(**parts))
        return {f"{name}.{part}": tensor for part, tensor in parts.items()}

    return _load(folder, auto, mark, insert)


def _load(
    folder: OpenedFolder, auto: Any, mark: str, build: Callable[[nn.Module, str, Any, Parts], Parts]
) -> PreTrainedModel:
    """The folder's model; `build` replaces a layer by its rounded form, and returns the tensors of that form."""
    loading.require_its_config(folder)
    layers, file = _listed(folder, mark), loading.header(weights(folder.path))
    in_a_number = 8 if mark == PACKED else 1  # a packed weight has at least one bit
    model = loading.built(auto, folder, in_a_number * file.numbers)
    delattr(model.config, mark)  # the model may be saved in another form
    tensors = loading.tensors(weights(folder.path))
    try:
        tensors |= {name: tensors[first] for name, first in json.loads(file.metadata.get(REPEATED, "{}")).items()}
        for name in layers:
            parts = {key.removeprefix(f"{name}."): tensors.pop(key) for key in _under(name, tensors)}
            with _named(name):
                tensors |= build(model, name, layers[name] if isinstance(layers, dict) else None, parts)
        model.load_state_dict(tensors)
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"{folder}: its weights do not fit the layers that {CONFIG} lists under {shown(mark)}: {one_line(error)}"
        ) from None
    return model


def _listed(folder: OpenedFolder, mark: str) -> list[str] | dict[str, Any]:
    """The layers that config.json lists under `mark`."""
    layers, wanted = folder.config.get(mark), dict if mark == PACKED else list
    if not isinstance(layers, wanted) or not all(isinstance(name, str) for name in layers):
        what = "an object from layer names to forms" if mark == PACKED else "a list of layers' names"
        raise InputError(f"{folder}: its {CONFIG} has {shown(mark)} {shown(layers)}; {what} is expected")
    return layers


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Begin the message of a ValueError with the layer's name."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{shown(name)}: {error}") from None


def _under(name: str, tensors: Parts) -> list[str]:
    return [key for key in tensors if key.startswith(f"{name}.")]
