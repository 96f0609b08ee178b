"""Load a model folder's weights, and refuse a folder from which some are missing.

transformers fills missing weights with random numbers and only logs it; such a model would train, and even serve.
"""

import re
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from transformers import AutoConfig, PreTrainedModel
from transformers import logging as hf_logging

from pipelines.core.errors import InputError, one_line
from pipelines.models import backbones, shapes

NO_SUCH_HEAD = "Unrecognized configuration class"  # what transformers says of a family without a model of that class
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
OWN_WEIGHTS = "bertline.safetensors"  # of forms that transformers would read as others, and then answer wrongly
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
    _require_layers(folder)
    report = {"output_loading_info": True, "ignore_mismatched_sizes": True}
    try:
        model, found = auto.from_pretrained(folder, dtype=torch.float32, **report, **names)
    except SafetensorError as error:
        raise unreadable(folder, error) from None
    except Exception as error:  # of any type: a size, a name or a value in its config.json that transformers cannot use
        if NO_SUCH_HEAD in str(error):
            raise
        raise InputError(f"{folder}: no model can be built from its config.json: {one_line(error)}") from error
    above = sorted(name for name in found["unexpected_keys"] if OF_A_LAYER.search(name))
    if above:
        raise InputError(f"{folder}: its weights have layers that its config.json does not have, such as {above[0]}")
    return model, {*found["missing_keys"], *(name for name, *_ in found["mismatched_keys"])}


def _require_layers(folder: Path) -> None:
    """Raise InputError if the config asks for more layers than the weights have, before they are built and filled."""
    file = folder / WEIGHTS
    if not file.is_file():
        return
    try:
        with safe_open(file, "pt") as found:
            names = list(found.keys())
    except (SafetensorError, OSError) as error:
        raise unreadable(folder, error) from None
    numbers = [int(layer[1]) for name in names if (layer := OF_A_LAYER.search(name))]
    asked = getattr(config(folder), "num_hidden_layers", 0)
    if numbers and isinstance(asked, int) and asked > max(numbers) + 1:
        raise InputError(f"{folder}: its config.json asks for {asked:,} layers, its weights have {max(numbers) + 1}")


def config(folder: Path) -> Any:
    """transformers' config of a model folder. Raises InputError if transformers cannot use it."""
    try:
        found = AutoConfig.from_pretrained(folder)
    except Exception as error:  # of any type, as above
        raise InputError(f"{folder}: its config.json is of no use: {one_line(error)}") from error
    for name in SIZES:
        size = getattr(getattr(found, "encoder", found), name, 1)
        if isinstance(size, int) and size < 1:  # torch builds a model with -2 heads, and fails when it is used
            raise InputError(f"{folder}: its config.json has {name} {size}; 1 or more is expected")
    return found


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


def built(auto: Any, config: Any) -> PreTrainedModel:
    """A model with random weights in all the shapes that `config` names."""
    model: PreTrainedModel = auto.from_config(config)
    shapes.take(model)
    return model
