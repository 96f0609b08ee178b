"""Load a model folder's weights, and raise InputError if some are missing.

transformers fills missing weights with random numbers and only logs it; such a model could be trained and served.
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
from pipelines.core.errors import InputError, one_line
from pipelines.core.opened_folder import CONFIG, OpenedFolder
from pipelines.models import backbones, shapes

NO_SUCH_HEAD = "Unrecognized configuration class"  # in transformers' error for a family that has no model of a class
WEIGHTS = "model.safetensors"
OWN_WEIGHTS = "bertline.safetensors"  # for formats that transformers would misread, which gives wrong answers
NOTES = "bertline"  # the key of OWN_WEIGHTS' metadata, one JSON value: safetensors writes keys in random order
CONFIG_DIGEST = "config_sha256"  # a key inside NOTES
SIZES = ("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size")  # config keys, each 1 or more
OF_A_LAYER = re.compile(r"\blayers?\.(\d+)\.")  # does not match the names of unused heads


def weights(folder: Path) -> Path:
    """The path of a model folder's weights in any format; the file may not exist."""
    own = folder / OWN_WEIGHTS
    return own if own.is_file() else folder / WEIGHTS


def opened(auto: Any, folder: OpenedFolder, model_config: Any = None) -> tuple[PreTrainedModel, set[str]]:
    """The folder's model of transformers' class `auto` in fp32, and the names of its random weights.

    A weight is random if the folder lacks it, or has it in another size.

    Args:
        model_config: the folder's config with changed values, by default as it is.
    """
    model_config = model_config or config(folder)
    hf_logging.set_verbosity_error()
    hf_logging.disable_progress_bar()
    if (folder / WEIGHTS).is_file():
        _require_fit(auto, folder, model_config)
    report = {"output_loading_info": True, "ignore_mismatched_sizes": True, "trust_remote_code": False}
    with _usable(folder):
        model, info = auto.from_pretrained(folder.path, config=model_config, dtype=torch.float32, **report)
    above = sorted(name for name in info["unexpected_keys"] if OF_A_LAYER.search(name))
    if above:
        raise InputError(f"{folder}: its weights have layers that its config.json does not have, such as {above[0]}")
    return model, {*info["missing_keys"], *(name for name, *_ in info["mismatched_keys"])}


@contextmanager
def _usable(folder: OpenedFolder) -> Iterator[None]:
    """Turn errors of transformers and torch for an invalid config or invalid weights into InputError."""
    try:
        yield
    except InputError:
        raise
    except SafetensorError as error:
        raise unreadable(folder.path, error) from None
    except Exception as error:  # errors have any type if transformers cannot use a value of config.json
        if NO_SUCH_HEAD in str(error):
            raise
        raise InputError(f"{folder}: no model can be built from its config.json: {one_line(error)}") from error


def _require_fit(auto: Any, folder: OpenedFolder, model_config: Any) -> None:
    """Raise InputError, before any memory is used, if the config has more layers or weights than the file."""
    file = header(folder / WEIGHTS, folder.path)
    numbers = [int(layer[1]) for name in file.sizes if (layer := OF_A_LAYER.search(name))]
    count = getattr(model_config, "num_hidden_layers", 0)
    if numbers and isinstance(count, int) and count > max(numbers) + 1:
        raise InputError(f"{folder}: its config.json has {count:,} layers, its weights have {max(numbers) + 1}")
    with _usable(folder):
        # a head or an output layer may be new, but not larger than all other weights
        build = partial(of_config, auto, model_config)
        planned.model(build, f"{folder}: its {CONFIG}", len(file.sizes), 2 * file.numbers)


def of_config(auto: Any, config: Any) -> PreTrainedModel:
    """A model with random weights, of a model class or an Auto class of transformers.

    It gets a copy of the config, since some models change theirs.
    """
    model: PreTrainedModel = getattr(auto, "from_config", auto)(copy.deepcopy(config))
    return model


class Header(NamedTuple):
    """The header of a safetensors file: the size of each tensor, and the metadata."""

    sizes: dict[str, list[int]]
    metadata: dict[str, str]

    @property
    def numbers(self) -> int:
        """The total count of numbers in all tensors of the file."""
        return sum(map(math.prod, self.sizes.values()))


def header(file: Path, place: Path | None = None) -> Header:
    """The header of a safetensors file. Raises InputError, which begins with `place`, if the file is not readable."""
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


def config(folder: OpenedFolder) -> Any:
    """transformers' config of a model folder. Raises InputError if transformers cannot use it."""
    planned.require_sizes(folder.config, f"{folder}: its {CONFIG}")
    try:
        model_config = AutoConfig.from_pretrained(folder.path, trust_remote_code=False)
    except Exception as error:  # transformers raises errors of any type
        raise InputError(f"{folder}: its config.json is not valid: {one_line(error)}") from error
    inner = getattr(model_config, "encoder", model_config)
    for name in SIZES:
        size = getattr(inner, name, 1)
        if isinstance(size, int) and size < 1:  # torch builds a model with -2 heads, but the model fails when called
            raise InputError(f"{folder}: its config.json has {name} {size}; 1 or more is expected")
    if getattr(inner, "is_decoder", False) or getattr(model_config, "is_decoder", False):
        raise InputError(f"{folder}: its {CONFIG} has is_decoder True; bertline takes only encoders")
    return model_config


def tensors(file: Path) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file. Raises InputError if it is not readable."""
    try:
        return load_file(file)
    except SafetensorError as error:
        raise unreadable(file, error) from None


def unreadable(place: Path, error: Exception) -> InputError:
    """The error for a file without weights, or an incomplete file; `place` is the file or its folder."""
    return InputError(f"{place}: its weights are not readable ({one_line(error)}); was the file cut off?")


def with_encoder(auto: Any, folder: OpenedFolder, model_config: Any = None) -> tuple[PreTrainedModel, set[str]]:
    """The same as `opened`, but raises InputError if weights other than those of a head or a pooler are random."""
    model, random = opened(auto, folder, model_config)
    inside = {id(p) for p in backbones.encoder_parameters(model)}
    require_whole(folder, random & {name for name, p in model.named_parameters() if id(p) in inside})
    return model, random


def require_whole(folder: OpenedFolder, random: set[str]) -> None:
    """Raise InputError if any weights are `random`."""
    if random:
        raise InputError(
            f"{folder}: {len(random)} weights that its config.json requires are missing or of another size, such as "
            f"{min(random)}"
        )


def digest(settings: Mapping[str, Any]) -> str:
    """sha256 of the values of a config.json, independent of formatting and key order."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def require_its_config(folder: OpenedFolder) -> None:
    """Raise InputError if config.json was changed after weights in a format of ours were saved with it.

    Many values, such as an activation, change all answers, and the weights do not reveal it.
    """
    noted = header(weights(folder.path)).metadata.get(CONFIG_DIGEST)
    if noted is not None and noted != digest(folder.config):
        raise InputError(f"{folder}: its {CONFIG} is not the one that its weights were saved with; restore that one")


def built(auto: Any, folder: OpenedFolder, most: int) -> PreTrainedModel:
    """A model with random weights in the shapes of a folder's config. Raises InputError for over `most` weights."""
    model_config = config(folder)
    for part in (model_config, getattr(model_config, "encoder", model_config)):
        part.dtype = torch.float32  # as in `opened`, whatever dtype the config has
    with _usable(folder):
        build = partial(of_config, auto, model_config)
        planned.model(build, f"{folder}: its {CONFIG}", len(header(weights(folder.path)).sizes), most)
        model = of_config(auto, model_config)
        shapes.take(model)
    return model
