"""A model folder is a Hugging Face folder: config, safetensors, tokenizer files, task.json, provenance.json, card."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel
from transformers import logging as hf_logging

from pipelines.checkpoints import card, formats
from pipelines.core import json_file, paths, schema
from pipelines.core.errors import InputError, one_line, shown
from pipelines.core.opened_folder import CONFIG, Folder, OpenedFolder
from pipelines.core.task import FILE as TASK_FILE
from pipelines.core.task import Task
from pipelines.models import backbones, heads
from pipelines.text import backend, protocol, tokenizer


def save(model: PreTrainedModel, folder: Path, tokenizer_folder: Path, task: Task | None = None) -> None:
    """Write `model` and its card into the existing `folder`, with the tokenizer files found in `tokenizer_folder`."""
    hf_logging.disable_progress_bar()
    form = formats.of_model(model)
    form.save(model, folder)
    copy_tokenizer(tokenizer_folder, folder)
    _let_auto_tokenizer_open(folder, model)
    if task:
        task.save(folder)
    card.write(folder, model, form.name, task)


def _let_auto_tokenizer_open(folder: Path, model: PreTrainedModel) -> None:
    """Add to a tokenizer's files what AutoTokenizer and `pipeline` need to give the model what bertline gives it.

    For ModernBERT, AutoTokenizer ignores the tokenizer class in the config and requires a tokenizer.json, which cannot
    express MeCab. If the config has an `auto_map`, it uses the class: transformers' own, unless it is called with
    `trust_remote_code`, for which this folder has no code.
    """
    config = dict(OpenedFolder(folder).tokenizer_config)
    types = ["token_type_ids"] if backbones.takes_types(model) else []
    config["model_input_names"] = ["input_ids", *types, "attention_mask"]
    if config.get("tokenizer_class") == protocol.MECAB_CLASS:
        config.pop("auto_map", None)  # may be left from a model of another family
        if model.config.model_type == "modernbert":
            config["auto_map"] = {"AutoTokenizer": [f"tokenizer.{protocol.MECAB_CLASS}", None]}
    elif (loaded := tokenizer.load(folder)).name != "wordpiece":  # transformers' classes of WordPieces agree
        backend.write_special_tokens(folder, loaded)
        if types or loaded.name != "bpe":  # a family's class may place special tokens elsewhere; RoBERTa's has no types
            config |= {"tokenizer_class": "PreTrainedTokenizerFast", "bertline_tokenizer": loaded.name}
    json_file.write(folder / protocol.CONFIG, config)


def copy_tokenizer(source: Path, target: Path) -> None:
    """Copy the tokenizer files of `source`. Raises InputError if there are none."""
    require_tokenizer(source)
    for name in protocol.FILES:
        if (source / name).is_file():
            paths.copy(source, name, target / name)


def require_tokenizer(folder: Path) -> None:
    if not (folder / protocol.CONFIG).is_file():
        raise InputError(f"{folder}: no {protocol.CONFIG}; a model folder holds its tokenizer's files")


def check_fit(folder: Folder, vocab_size: int, max_length: int) -> None:
    """Raise InputError if an encoder cannot be trained, has another vocabulary, or takes less than `max_length`."""
    folder = OpenedFolder.of(folder)
    form = formats.of_config(folder.config)
    if not form.trains:
        raise InputError(
            f"{folder}: fine-tuning cannot start from weights in the format {form.words}; start from the model that it "
            "was made from"
        )
    backbones.known(folder.encoder_config.get("model_type"), f"{folder}: ")
    known = folder.encoder_config.get("vocab_size")
    if known != vocab_size:
        raise InputError(
            f"{folder}: its vocabulary has {known} entries, the encoded data {vocab_size}; "
            "encode with the encoder's own tokenizer (encode.vocab)"
        )
    check_length(folder.encoder_config, folder.path, max_length)


def check_length(own: Mapping[str, Any], source: Path, max_length: int) -> None:
    """Raise InputError if an encoder with the config `own` takes fewer than `max_length` tokens."""
    positions = tokenizer.positions(own)
    if positions is not None and positions < max_length:
        raise InputError(
            f"{source}: it has {positions} positions, encode.max_length is {max_length}; reduce max_length"
        )


def load_tuned(folder: Folder) -> tuple[PreTrainedModel, Task]:
    """The fine-tuned model of `folder`, in eval mode, and its task."""
    folder = OpenedFolder.of(folder)
    form = formats.of_config(folder.config)
    require_tokenizer(folder.path)
    if not (formats.weights(folder.path) if form.name else folder / form.weights).is_file():
        raise InputError(f"{folder}: no {form.weights}; the folder is not complete")
    if not (folder / TASK_FILE).is_file():
        raise InputError(f"{folder}: no {TASK_FILE}; this is an encoder, not a fine-tuned model")
    task = folder.task
    schema.check_trained(task.kind)
    model = form.load(folder, heads.AUTO[task.kind]).eval()
    wanted, found = heads.names(task).get("id2label"), getattr(model.config, "id2label", None)
    if wanted and wanted != found:
        raise InputError(f"{folder}: {TASK_FILE} has the labels {shown(wanted)}, {CONFIG} {shown(found)}")
    _require_numbers(folder, model)
    _require_runs(folder, model, task)
    return model, task


def _require_numbers(folder: OpenedFolder, model: PreTrainedModel) -> None:
    """Raise InputError for a weight that is NaN or infinite; the model would give wrong answers without an error."""
    for name, value in model.state_dict().items():
        if getattr(value, "is_floating_point", bool)() and not value.isfinite().all():
            raise InputError(f"{folder}: {name} holds what is no number; its weights are damaged")


def _require_runs(folder: OpenedFolder, model: PreTrainedModel, task: Task) -> None:
    """Raise InputError if the model cannot be run or its output has another shape; config values can cause this."""
    length = min(8, backbones.max_positions(model))
    inputs = {name: torch.ones(1, length, dtype=torch.int64) for name in ("input_ids", "attention_mask")}
    inputs["token_type_ids"] = torch.zeros_like(inputs["input_ids"])
    try:
        with torch.inference_mode():
            shape = tuple(heads.outputs(model, task.kind, inputs).shape)
    except Exception as error:  # layers raise errors of any type for sizes that do not fit together
        raise InputError(f"{folder}: its model does not run with its {CONFIG}: {one_line(error)}") from error
    wanted = heads.shape(task, length)
    if shape != wanted:
        raise InputError(f"{folder}: its model returns the shape {shape}; kind {task.kind} needs {wanted}")
