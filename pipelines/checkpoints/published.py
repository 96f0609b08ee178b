"""Fetch a published checkpoint, from a folder or from Hugging Face's hub, as a model folder of ours."""

import pickle
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file

from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import loading
from pipelines.core.errors import InputError, one_line
from pipelines.text import interface


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
        state = {name: tensor for file in files for name, tensor in loading.tensors(file).items()}
    elif pickled.is_file():
        state = {name: tensor.clone().contiguous() for name, tensor in _unpickled(pickled).items()}
    else:
        raise InputError(f"{source}: no model.safetensors and no pytorch_model.bin; the folder is not complete")
    save_file(state, target, {"format": "pt"})


def _unpickled(file: Path) -> dict[str, torch.Tensor]:
    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise InputError(f"{file}: holds more than tensors; it is not opened") from None
    except (RuntimeError, OSError, EOFError) as error:  # which of these a cut file raises depends on where it ends
        raise loading.unreadable(file, error) from None


def _download(name: str) -> Path:
    from huggingface_hub import snapshot_download

    wanted = ["config.json", "*.safetensors", "pytorch_model.bin", *interface.FILES]
    try:
        return Path(snapshot_download(name, allow_patterns=wanted))
    except Exception as error:  # the hub's own errors share no class that says what happened in one sentence
        raise InputError(f"{name}: neither a folder here nor available on the hub ({one_line(error)})") from None
