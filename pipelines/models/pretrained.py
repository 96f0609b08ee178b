"""Encoders to start from: random weights of a config's shape, a model folder, a name on the hub."""

import pickle
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel

from pipelines.core import json_file, seeding
from pipelines.core.errors import InputError, UsageError, choices, one_line
from pipelines.core.progress import say
from pipelines.core.task import FILE as TASK_FILE
from pipelines.models import (
    backbones,
    bilstm,  # noqa: F401 (transformers opens its folders from then on)
    opening,
    vocabulary,
)
from pipelines.models import folder as model_folder
from pipelines.text import tokenizer as tokenizer_files


def start(source: Path, changes: dict[str, Any], auto: Any, tokenizer: Any, seed: int) -> PreTrainedModel:
    """The model that pretraining begins with.

    Args:
        source: a model folder to continue from, or a JSON file of a config, for random weights.
        changes: what to change in that config, by its own names.
        auto: the transformers Auto class that the objective trains.
        tokenizer: the encoded text's; an old model that knows another vocabulary takes this one.
        seed: of the random weights.
    """
    if source.is_dir():
        if changes:
            raise InputError(
                f"{source}: a model to continue from keeps its shape; take out config: {', '.join(changes)}"
            )
        return _further(source, auto, tokenizer)
    values = json_file.mapping(source)
    _check_names(family(source), changes, values)
    values |= changes
    values |= {"vocab_size": tokenizer.vocab_size} | _special_ids(values["model_type"], tokenizer)
    torch.manual_seed(seeding.derive(seed, "weights"))
    try:
        config = AutoConfig.for_model(**values)
        width, heads = config.hidden_size, config.num_attention_heads
        if heads < 1 or width % heads:
            raise ValueError(f"hidden_size {width} does not divide by num_attention_heads {heads}")
        model = auto.from_config(config)
        with torch.inference_mode():  # some sizes do not go together, and only a model that runs shows it
            backbones.encoder(model.eval())(input_ids=torch.tensor([[tokenizer.cls_id, tokenizer.sep_id]]))
    except Exception as error:  # of whatever kind: it is the sizes that transformers and torch could not use
        raise InputError(f"{source}: no model comes of these sizes: {one_line(error)}") from error
    return model.train()


def family(source: Path) -> str:
    """The family of a model folder's encoder, or of a config's file."""
    if source.is_dir():
        model_folder.config(source)
        values = tokenizer_files.encoder_config(source)
    elif source.is_file():
        values = json_file.mapping(source)
    else:
        raise InputError(f"{source}: no such model folder or config file")
    return backbones.known(values.get("model_type"), f"{source}: ")


def _check_names(family: str, changes: dict[str, Any], values: dict[str, Any]) -> None:
    """Refuse `changes` that neither a config of the family nor `values`, a file's, has a name for."""
    config = AutoConfig.for_model(family)
    names = {*config.to_dict(), *config.attribute_map} - {*PreTrainedConfig().to_dict()} | {*values}
    names -= {"model_type", "vocab_size"}  # the file's, and the tokenizer's
    for name in changes:
        if name not in names:
            raise UsageError(f"params.yaml: pretrain: config: {choices('name', name, names)}")


def _further(source: Path, auto: Any, tokenizer: Any) -> PreTrainedModel:
    """The model of a folder, under the vocabulary of `tokenizer`."""
    model_folder.config(source)
    if (source / TASK_FILE).is_file():
        raise InputError(
            f"{source}: a fine-tuned model, without a head to pretrain; start from the encoder that it was made of"
        )
    own = tokenizer_files.load(source)
    model, random = opening.with_encoder(auto, source)
    if random:
        say(
            f"{source}: {len(random)} weights of a head or a pooler are not there and begin at random: {min(random)}, ..."
        )
    if not vocabulary.same(own, tokenizer):
        kept = vocabulary.exchange(model, own, tokenizer)
        model.config.update(_special_ids(model.config.model_type, tokenizer))
        say(f"{source}: {kept:,} of {tokenizer.vocab_size:,} entries of the vocabulary have learned already")
    return model


def itself(model: PreTrainedModel, params: Any) -> PreTrainedModel:
    """What trains around a model where an objective needs nothing but the model."""
    return model


def _special_ids(family: str, tokenizer: Any) -> dict[str, int]:
    """The ids of special tokens, by those of the config's names for them that the family uses."""
    ids = {"pad": tokenizer.pad_id, "cls": tokenizer.cls_id, "bos": tokenizer.cls_id}
    ids |= {"sep": tokenizer.sep_id, "eos": tokenizer.sep_id}
    known = AutoConfig.for_model(family).to_dict()
    names = {f"{part}_token_id": i for part, i in ids.items()}
    return {name: i for name, i in names.items() if known.get(name) is not None}


def fetch(source: str, target: Path) -> None:
    """Copy a Hugging Face folder, or download a name on the hub, into `target` as config, safetensors, tokenizer."""
    local = Path(source)
    if not local.is_dir():
        local = _download(source)
    model_folder.config(local)
    model_folder.require_tokenizer(local)
    shutil.copyfile(local / "config.json", target / "config.json")
    _weights(local, target / "model.safetensors")
    model_folder.copy_tokenizer(local, target)


def _weights(source: Path, target: Path) -> None:
    """The weights of a Hugging Face folder as one safetensors file; nothing is unpickled but tensors."""
    whole, pickled = source / "model.safetensors", source / "pytorch_model.bin"
    files = [whole] if whole.is_file() else sorted(source.glob("model-*-of-*.safetensors"))
    if files:
        state = {name: tensor for file in files for name, tensor in opening.tensors(file).items()}
    elif pickled.is_file():
        state = {name: tensor.clone().contiguous() for name, tensor in _unpickled(pickled).items()}
    else:
        raise InputError(f"{source}: no model.safetensors and no pytorch_model.bin; the folder is not whole")
    save_file(state, target, {"format": "pt"})


def _unpickled(file: Path) -> dict[str, torch.Tensor]:
    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise InputError(f"{file}: holds more than tensors; it is not opened") from None
    except (RuntimeError, OSError, EOFError) as error:  # torch's own for a file cut off, each at another place
        raise opening.unreadable(file, error) from None


def _download(name: str) -> Path:
    from huggingface_hub import snapshot_download

    wanted = ["config.json", "*.safetensors", "pytorch_model.bin", *tokenizer_files.FILES]
    try:
        return Path(snapshot_download(name, allow_patterns=wanted))
    except Exception as error:  # the hub's own errors share no class that says what happened in one sentence
        raise InputError(f"{name}: neither a folder here nor to be had from the hub ({one_line(error)})") from None
