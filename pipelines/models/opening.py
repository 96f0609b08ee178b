"""Opening a model folder's weights: what its config asks for is there, or it is said.

transformers fills what is missing with random numbers and reports it in a log; a model of theirs would train, and serve.
"""

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import PreTrainedModel
from transformers import logging as hf_logging

from pipelines.core.errors import InputError, one_line
from pipelines.models import backbones


def opened(auto: Any, folder: Path, **names: Any) -> tuple[PreTrainedModel, set[str]]:
    """The folder's model of transformers' class `auto`, fp32, and the weights that are random: not there, or of another size.

    Args:
        names: what the config is to say, whatever the folder's says.
    """
    hf_logging.set_verbosity_error()
    hf_logging.disable_progress_bar()
    report = {"output_loading_info": True, "ignore_mismatched_sizes": True}
    try:
        model, found = auto.from_pretrained(folder, dtype=torch.float32, **report, **names)
    except SafetensorError as error:
        raise unreadable(folder, error) from None
    return model, {*found["missing_keys"], *(name for name, *_ in found["mismatched_keys"])}


def tensors(file: Path) -> dict[str, torch.Tensor]:
    """What a file of safetensors holds."""
    try:
        return load_file(file)
    except SafetensorError as error:
        raise unreadable(file, error) from None


def unreadable(place: Path, error: Exception) -> InputError:
    """What is said of a file that is no file of weights, or a part of one; `place` is the file, or its folder."""
    return InputError(f"{place}: its weights are not readable ({one_line(error)}); was the file cut off?")


def with_encoder(auto: Any, folder: Path, **names: Any) -> tuple[PreTrainedModel, set[str]]:
    """As `opened`, its encoder whole: what is random is of a head or a pooler, which the folder may not have."""
    model, random = opened(auto, folder, **names)
    inside = {id(p) for p in backbones.encoder_parameters(model)}
    require_whole(folder, random & {name for name, p in model.named_parameters() if id(p) in inside})
    return model, random


def require_whole(folder: Path, random: set[str]) -> None:
    """Refuse a folder without weights that its config asks for."""
    if random:
        raise InputError(
            f"{folder}: {len(random)} weights that its config.json asks for are not there in that size, such as "
            f"{min(random)}"
        )
