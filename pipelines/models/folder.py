"""A model folder is a Hugging Face folder: config, safetensors, tokenizer files, task.json, provenance.json."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel
from transformers import logging as hf_logging

from pipelines.core import json_file
from pipelines.core.errors import InputError
from pipelines.core.task import FILE as TASK_FILE
from pipelines.core.task import Task
from pipelines.models import backbones, heads, int8, opening
from pipelines.text import tokenizer


def save(model: PreTrainedModel, folder: Path, tokenizer_folder: Path, task: Task | None = None) -> None:
    """Write `model` into the existing `folder`, with the tokenizer files found in `tokenizer_folder`."""
    hf_logging.disable_progress_bar()
    if int8.is_quantized(model):
        int8.save(model, folder)
    else:
        model.save_pretrained(folder)
    copy_tokenizer(tokenizer_folder, folder)
    if task:
        task.save(folder)


def copy_tokenizer(source: Path, target: Path) -> None:
    """Copy the tokenizer files that are there."""
    require_tokenizer(source)
    for name in tokenizer.FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)


def require_tokenizer(folder: Path) -> None:
    if not (folder / tokenizer.CONFIG).is_file():
        raise InputError(f"{folder}: no {tokenizer.CONFIG}; a model folder holds its tokenizer's files")


def config(folder: Path) -> dict:
    """config.json of a model folder, or one sentence."""
    path = folder / "config.json"
    if not path.is_file():
        raise InputError(f"{folder}: no config.json; it is not a model folder")
    return json_file.mapping(path)


def check_fit(folder: Path, vocab_size: int, max_length: int) -> None:
    """Refuse an encoder that does not know the encoded ids, or has fewer positions than they have tokens."""
    if int8.MARK in config(folder):
        raise InputError(
            f"{folder}: its layers are int8, which does not train; start from the model that it was made of"
        )
    own = tokenizer.encoder_config(folder)
    backbones.known(own.get("model_type"), f"{folder}: ")
    known = own.get("vocab_size")
    if known != vocab_size:
        raise InputError(
            f"{folder}: its vocabulary has {known} entries, the encoded data {vocab_size}; "
            "encode with the encoder's own tokenizer (encode.vocab)"
        )
    check_length(own, folder, max_length)


def check_length(own: Mapping[str, Any], source: Path, max_length: int) -> None:
    """Refuse an encoder, by the config of its `own`, that has fewer positions than encoded sequences have tokens."""
    positions = tokenizer.positions(own)
    if positions is not None and positions < max_length:
        raise InputError(
            f"{source}: it has {positions} positions, encode.max_length is {max_length}; make that smaller"
        )


def load_tuned(folder: Path) -> tuple[PreTrainedModel, Task]:
    """The fine-tuned model of `folder`, in eval mode, and its task."""
    settings = config(folder)
    require_tokenizer(folder)
    if not (folder / "model.safetensors").is_file():
        raise InputError(f"{folder}: no model.safetensors; the folder is not whole")
    if not (folder / TASK_FILE).is_file():
        raise InputError(f"{folder}: no {TASK_FILE}; this is an encoder, not a fine-tuned model")
    task = Task.load(folder)
    if int8.MARK in settings:
        return int8.load(folder, heads.AUTO[task.kind]), task
    model, random = opening.opened(heads.AUTO[task.kind], folder)
    opening.require_whole(folder, random)
    return model.eval(), task
