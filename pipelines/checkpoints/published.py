"""Fetch a published checkpoint, from a folder or Hugging Face's hub, as a bertline model folder."""

import pickle
import re
from pathlib import Path

import torch
from safetensors.torch import save_file

from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import loading, new_head
from pipelines.core import json_file, paths
from pipelines.core.errors import MAX_PRINTED, InputError, choices, one_line
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.progress import say
from pipelines.models import backbones
from pipelines.models.features import FeaturesConfig
from pipelines.text import backend, protocol, tokenizer, vocab

SEVERAL_IDEOGRAPHS = re.compile("[一-鿿]{2}")  # BERT's own tokenizer makes no such pieces


def fetch(source: str, revision: str, target: Path) -> None:
    """Copy a Hugging Face folder, or download a name on the hub, into `target` as config, safetensors, tokenizer.

    Raises InputError unless the result is an encoder of a supported family, with all of its weights.
    """
    local = Path(source)
    if not local.is_dir():
        local = _download(source, revision)
    elif revision:
        raise InputError(f"{source}: a folder has no revisions; remove revision: {revision}, or name a hub model")
    family = OpenedFolder(local).config.get("model_type")
    if family not in (FeaturesConfig.model_type, *backbones.BACKBONES):
        raise InputError(f"{local}: {choices('family', family, backbones.BACKBONES)}")
    paths.copy(local, "config.json", target / "config.json")
    _weights(local, target / "model.safetensors")
    _tokenizer(local, target)
    folder = OpenedFolder(target)
    tokenizer.load(folder)
    new_head.encoder(folder)


def _tokenizer(source: Path, target: Path) -> None:
    """Copy the tokenizer's files. If there is only a vocab.txt, as for the first BERTs, write a config for it."""
    if (source / protocol.CONFIG).is_file() or not (source / vocab.FILE).is_file():
        model_folder.copy_tokenizer(source, target)
        if not any((target / name).is_file() for name in (backend.FILE, vocab.FILE)):
            raise InputError(
                f"{source}: no {backend.FILE} and no {vocab.FILE}; transformers writes a {backend.FILE} beside the "
                "weights: AutoTokenizer.from_pretrained(NAME).save_pretrained(FOLDER)"
            )
        return
    pieces = [piece for piece in vocab.read(source) if not piece.startswith("[")]
    if any(SEVERAL_IDEOGRAPHS.search(piece) for piece in pieces):
        raise InputError(f"{source}: no {protocol.CONFIG}, and BERT's own tokenizer cannot produce its vocabulary")
    paths.copy(source, vocab.FILE, target / vocab.FILE)
    lowercase = not any(piece != piece.lower() for piece in pieces)
    json_file.write(target / protocol.CONFIG, {"tokenizer_class": "BertTokenizer", "do_lower_case": lowercase})
    say(f"{source}: no {protocol.CONFIG}; taken as {'lowercased' if lowercase else 'cased'}, from its vocabulary")


def _weights(source: Path, target: Path) -> None:
    """Write the weights of a Hugging Face folder as one safetensors file; only tensors are unpickled."""
    if files := _files(source, "model", ".safetensors"):
        state = {name: tensor for file in files for name, tensor in loading.tensors(file).items()}
    elif files := _files(source, "pytorch_model", ".bin"):
        pairs = (pair for file in files for pair in _unpickled(file).items())
        state = {name: tensor.clone().contiguous() for name, tensor in pairs}
    else:
        raise InputError(f"{source}: no model.safetensors and no pytorch_model.bin; the folder is not complete")
    save_file(state, target, {"format": "pt"})


def _files(source: Path, name: str, ending: str) -> list[Path]:
    """The one file of a format's weights in `source`, or the several into which large weights are divided."""
    whole = source / f"{name}{ending}"
    return [whole] if whole.is_file() else sorted(source.glob(f"{name}-*-of-*{ending}"))


def _unpickled(file: Path) -> dict[str, torch.Tensor]:
    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise InputError(f"{file}: contains more than tensors, so it is not opened") from None
    except (RuntimeError, OSError, EOFError) as error:  # a truncated file raises one of these
        raise loading.unreadable(file, error) from None


def _download(name: str, revision: str) -> Path:
    from huggingface_hub import snapshot_download

    wanted = ["config.json", "*.safetensors", "pytorch_model*.bin", *protocol.FILES]
    try:
        return Path(snapshot_download(name, revision=revision or None, allow_patterns=wanted))
    except Exception as error:  # the hub's errors have no common base class
        raise InputError(
            f"{name}: neither a folder here nor available on the hub ({one_line(error, MAX_PRINTED)})"
        ) from None
