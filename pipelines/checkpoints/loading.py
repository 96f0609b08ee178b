"""Load a model folder's weights, and refuse a folder from which some are missing.

transformers fills missing weights with random numbers and only logs it; such a model would train, and even serve.
"""

import copy
import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, PreTrainedModel
from transformers import logging as hf_logging

from pipelines.checkpoints import planned
from pipelines.core import json_file
from pipelines.core.errors import InputError, one_line
from pipelines.models import backbones, shapes

NO_SUCH_HEAD = "Unrecognized configuration class"  # what transformers says of a family without a model of that class
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
OWN_WEIGHTS = "bertline.safetensors"  # of forms that transformers would read as others, and then answer wrongly
NOTES = "bertline"  # the metadata of OWN_WEIGHTS, as one JSON value: safetensors writes several in a random order
CONFIG_DIGEST = "config_sha256"  # of NOTES
SIZES = ("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size")  # of a config
OF_A_LAYER = re.compile(r"\blayers?\.(\d+)\.")  # heads that are not wanted have other names


def weights(folder: Path) -> Path:
    """The file with a model folder's weights, whatever their form; it need not be there."""
    own = folder / OWN_WEIGHTS
    return own if own.is_file() else folder / WEIGHTS


def opened(auto: Any, folder: Path, **names: Any) -> tuple[PreTrainedModel, set[str]]:
    """The folder's model of transformers' class `auto` in fp32, and the names of its random weights.

    A weight is random if the folder does not have it, or has it in another size.

    Args:
        names: values of the config that replace the folder's.
    """
    hf_logging.set_verbosity_error()
    hf_logging.disable_progress_bar()
    if (folder / WEIGHTS).is_file():
        _require_fit(auto, folder, names)
    report = {"output_loading_info": True, "ignore_mismatched_sizes": True, "trust_remote_code": False}
    with _usable(folder):
        model, info = auto.from_pretrained(folder, dtype=torch.float32, **report, **names)
    above = sorted(name for name in info["unexpected_keys"] if OF_A_LAYER.search(name))
    if above:
        raise InputError(f"{folder}: its weights have layers that its config.json does not have, such as {above[0]}")
    return model, {*info["missing_keys"], *(name for name, *_ in info["mismatched_keys"])}


@contextmanager
def _usable(folder: Path) -> Iterator[None]:
    """Turn what transformers and torch raise for a config or weights of no use into one sentence."""
    try:
        yield
    except InputError:
        raise
    except SafetensorError as error:
        raise unreadable(folder, error) from None
    except Exception as error:  # of any type: a size, a name or a value in its config.json that transformers cannot use
        if NO_SUCH_HEAD in str(error):
            raise
        raise InputError(f"{folder}: no model can be built from its config.json: {one_line(error)}") from error


def _require_fit(auto: Any, folder: Path, names: dict[str, Any]) -> None:
    """Raise InputError if the config asks for more layers or weights than the file has, before they are made."""
    file = header(folder / WEIGHTS, folder)
    numbers = [int(layer[1]) for name in file.sizes if (layer := OF_A_LAYER.search(name))]
    model_config = config(folder)
    count = getattr(model_config, "num_hidden_layers", 0)
    if numbers and isinstance(count, int) and count > max(numbers) + 1:
        raise InputError(f"{folder}: its config.json asks for {count:,} layers, its weights have {max(numbers) + 1}")
    with _usable(folder):
        model_config.update(names)
        # a head or an output layer may be new; it is not larger than all the rest
        planned.model(
            partial(of_config, auto, model_config), f"{folder}: its {CONFIG}", len(file.sizes), 2 * file.numbers
        )


def of_config(auto: Any, config: Any) -> PreTrainedModel:
    """A model with random weights, of a class of transformers or of one of its Auto classes."""
    model: PreTrainedModel = getattr(auto, "from_config", auto)(config)
    return model


class Header(NamedTuple):
    """The header of a safetensors file: the size of each tensor, and the metadata."""

    sizes: dict[str, list[int]]
    metadata: dict[str, str]

    @property
    def numbers(self) -> int:
        """The count of all numbers in the file."""
        return sum(map(math.prod, self.sizes.values()))


def header(file: Path, place: Path | None = None) -> Header:
    """Read the header of a safetensors file. Raises InputError, which begins with `place`, if it is not readable."""
    try:
        with safe_open(file, "pt") as tensors:
            sizes = {name: tensors.get_slice(name).get_shape() for name in tensors.keys()}  # noqa: SIM118
            metadata = tensors.metadata() or {}
            return Header(sizes, metadata | json.loads(metadata.pop(NOTES, "{}")))
    except (SafetensorError, OSError, TypeError, ValueError) as error:
        raise unreadable(place or file, error) from None


def save_own(tensors: dict[str, torch.Tensor], folder: Path, settings: Mapping[str, Any], **notes: str) -> None:
    """Write OWN_WEIGHTS; the metadata are `notes` and the digest of the folder's config.json, `settings`."""
    notes |= {CONFIG_DIGEST: digest(settings)}
    save_file(tensors, folder / OWN_WEIGHTS, {NOTES: json.dumps(notes, sort_keys=True)})


def config(folder: Path) -> Any:
    """transformers' config of a model folder. Raises InputError if transformers cannot use it."""
    planned.require_sizes(json_file.mapping(folder / CONFIG), f"{folder}: its {CONFIG}")
    try:
        model_config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # of any type, as above
        raise InputError(f"{folder}: its config.json is of no use: {one_line(error)}") from error
    inner = getattr(model_config, "encoder", model_config)
    for name in SIZES:
        size = getattr(inner, name, 1)
        if isinstance(size, int) and size < 1:  # torch builds a model with -2 heads, and fails when it is used
            raise InputError(f"{folder}: its config.json has {name} {size}; 1 or more is expected")
    if getattr(inner, "is_decoder", False) or getattr(model_config, "is_decoder", False):
        raise InputError(f"{folder}: its {CONFIG} has is_decoder True; it would read each token without those after it")
    return model_config


def tensors(file: Path) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file. Raises InputError if it is not readable."""
    try:
        return load_file(file)
    except SafetensorError as error:
        raise unreadable(file, error) from None


def unreadable(place: Path, error: Exception) -> InputError:
    """The error for a file that holds no weights or is incomplete; `place` is the file or its folder."""
    return InputError(f"{place}: its weights are not readable ({one_line(error)}); was the file cut off?")


def with_encoder(auto: Any, folder: Path, **names: Any) -> tuple[PreTrainedModel, set[str]]:
    """As `opened`, but the encoder must be complete: only weights of a head or a pooler may be random."""
    model, random = opened(auto, folder, **names)
    inside = {id(p) for p in backbones.encoder_parameters(model)}
    require_whole(folder, random & {name for name, p in model.named_parameters() if id(p) in inside})
    return model, random


def require_whole(folder: Path, random: set[str]) -> None:
    """Raise InputError if any weights are `random`."""
    if random:
        raise InputError(
            f"{folder}: {len(random)} weights that its config.json asks for are missing or of another size, such as "
            f"{min(random)}"
        )


def digest(settings: Mapping[str, Any]) -> str:
    """sha256 of the values of a config.json, however they are written."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def require_its_config(folder: Path) -> None:
    """Raise InputError if config.json is not the one that was written with weights in a format of ours.

    Many of its values, such as an activation, change all answers, and no weight shows it.
    """
    noted = header(weights(folder)).metadata.get(CONFIG_DIGEST)
    if noted is not None and noted != digest(json_file.mapping(folder / CONFIG)):
        raise InputError(f"{folder}: its {CONFIG} is not the one that its weights were saved with; bring that one back")


def built(auto: Any, folder: Path, most: int) -> PreTrainedModel:
    """A model with random weights in all the shapes that a folder's config names, which are at most so many."""
    model_config = config(folder)
    for part in (model_config, getattr(model_config, "encoder", model_config)):
        part.dtype = torch.float32  # as `opened` does, whatever the config names
    with _usable(folder):
        # on a copy, since some models write into their config what they have of it
        build = partial(of_config, auto, copy.deepcopy(model_config))
        planned.model(build, f"{folder}: its {CONFIG}", len(header(weights(folder)).sizes), most)
        model = of_config(auto, model_config)
        shapes.take(model)
    return model
