"""The initial model of pretraining: random weights in a config's shape, or a model folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel

from pipelines.checkpoints import loading, vocabulary
from pipelines.core import json_file, seeding
from pipelines.core.errors import InputError, UsageError, choices, one_line
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.progress import say
from pipelines.core.task import FILE as TASK_FILE
from pipelines.models import (
    backbones,
    bilstm,  # noqa: F401 (the import lets transformers open its folders)
)
from pipelines.text import tokenizer as tokenizer_files


def start(source: Path, changes: dict[str, Any], auto: Any, tokenizer: Any, seed: int) -> PreTrainedModel:
    """The initial model of pretraining.

    Args:
        source: a model folder to continue from, or a config as a JSON file, for random weights.
        changes: values to change in that config, by its own names.
        auto: the transformers Auto class that the objective trains.
        tokenizer: tokenizer of the encoded text; a model with another vocabulary gets the vocabulary of this one.
        seed: seed of the random weights, also of those that a folder lacks.
    """
    if source.is_dir():
        if changes:
            raise InputError(f"{source}: a pretrained model keeps its sizes; remove under config: {', '.join(changes)}")
        torch.manual_seed(seeding.derive(seed, "weights"))
        return _further(OpenedFolder(source), auto, tokenizer)
    values = json_file.mapping(source)
    _check_names(family(source), changes, values)
    values |= changes
    _require_known_head(values, source)
    values |= {"vocab_size": tokenizer.vocab_size} | _special_ids(values["model_type"], tokenizer)
    torch.manual_seed(seeding.derive(seed, "weights"))
    try:
        config = AutoConfig.for_model(**values)
        width, heads = config.hidden_size, config.num_attention_heads
        if heads < 1 or width % heads:
            raise ValueError(f"hidden_size {width} is not divisible by num_attention_heads {heads}")
        config.dtype = torch.float32  # as in `loading.opened`, whatever dtype the file has
        model = auto.from_config(config)
        with torch.inference_mode():  # some sizes do not fit together; only a forward pass shows this
            backbones.encoder(model.eval())(input_ids=torch.tensor([[tokenizer.cls_id, tokenizer.sep_id]]))
    except Exception as error:  # transformers and torch raise errors of any type for invalid sizes
        raise InputError(f"{source}: no model can be built with these sizes: {one_line(error)}") from error
    return model.train()


def family(source: Path) -> str:
    """The family of a model folder's encoder, or of a config's file."""
    if source.is_dir():
        folder = OpenedFolder(source)
        folder.require_config()
        values = folder.encoder_config
    elif source.is_file():
        values = json_file.mapping(source)
    else:
        raise InputError(f"{source}: no such model folder or config file")
    return backbones.known(values.get("model_type"), f"{source}: ")


def _check_names(family: str, changes: dict[str, Any], values: dict[str, Any]) -> None:
    """Raise UsageError if a name in `changes` is neither in the family's config nor in the file's `values`."""
    config = AutoConfig.for_model(family)
    names = {*config.to_dict(), *config.attribute_map} - {*PreTrainedConfig().to_dict()} | {*values}
    names -= {"model_type", "vocab_size"}  # set by the file and by the tokenizer
    for name in changes:
        if name not in names:
            raise UsageError(f"params.yaml: pretrain: config: {choices('name', name, names)}")


def _further(source: OpenedFolder, auto: Any, tokenizer: Any) -> PreTrainedModel:
    """The model of a folder, with the vocabulary of `tokenizer`."""
    source.require_config()
    if (source / TASK_FILE).is_file():
        raise InputError(
            f"{source}: a fine-tuned model, without a head to pretrain; start from the encoder that it was made from"
        )
    _require_known_head(source.encoder_config, source.path)
    source_tokenizer = tokenizer_files.load(source)
    model, random = loading.with_encoder(auto, source)
    if random:
        say(
            f"{source}: {len(random)} weights of a head or a pooler are missing and start at random: {min(random)}, ..."
        )
    if not vocabulary.same(source_tokenizer, tokenizer):
        shared = vocabulary.exchange(model, source_tokenizer, tokenizer)
        model.config.update(_special_ids(model.config.model_type, tokenizer))
        say(f"{source}: {shared:,} of {tokenizer.vocab_size:,} entries of the vocabulary have a trained embedding")
    return model


def _require_known_head(config: Mapping[str, Any], source: Path) -> None:
    """Raise InputError for DeBERTa's second masked-token head, which reads the embeddings and not only the states."""
    if config.get("model_type") == "deberta-v2" and config.get("legacy") is False:
        raise InputError(f"{source}: legacy: false has a masked-token head that is not supported; set legacy to true")


def itself(model: PreTrainedModel, params: Any) -> PreTrainedModel:
    """The module to train, for objectives that need no wrapper: the model itself."""
    return model


def _special_ids(family: str, tokenizer: Any) -> dict[str, int]:
    """The ids of the special tokens, by the names in the family's config."""
    ids = {"pad": tokenizer.pad_id, "cls": tokenizer.cls_id, "bos": tokenizer.cls_id}
    ids |= {"sep": tokenizer.sep_id, "eos": tokenizer.sep_id}
    known = AutoConfig.for_model(family).to_dict()
    names = {f"{part}_token_id": i for part, i in ids.items()}
    return {name: i for name, i in names.items() if known.get(name) is not None}
