"""A folder whose weights are not those that its config asks for is refused, wherever it is opened."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoModelForMaskedLM

from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import loading, new_head, pretrained
from pipelines.core import provenance
from pipelines.core.errors import InputError
from pipelines.inference.fill_mask import fill
from pipelines.measurement import cost
from pipelines.models.quantization import int8
from pipelines.text import tokenizer
from tests.support import own_formats, tiny

OPENED: dict[str, Callable[[Path], Any]] = {
    "fine-tuned further": lambda folder: new_head.for_task(folder, tiny.TASK),
    "under a head of ours": lambda folder: new_head.for_task(folder, tiny.TASK, "linear"),
    "pretrained further": lambda folder: pretrained.start(folder, {}, AutoModelForMaskedLM, tokenizer.load(folder), 1),
    "asked for words": lambda folder: fill(folder, "私は[MASK]が好き。", 3),
    "predicted with": lambda folder: model_folder.load_tuned(folder),
}


def damaged(folder: Path, damage: str) -> str:
    """Damages a model folder; returns what is to be said of it."""
    if damage == "cut off":
        file = loading.weights(folder)
        file.write_bytes(file.read_bytes()[:1000])
        return r"its weights are not readable \(.*\); was the file cut off\?"
    messages = {
        "a layer less": "its config.json has 3 layers, its weights have 2",
        "narrower": r"\d+ weights that its config\.json requires are missing or of another size, such as ",
    }
    name, value = {"a layer less": ("num_hidden_layers", 3), "narrower": ("hidden_size", 64)}[damage]
    config = json.loads((folder / "config.json").read_text()) | {name: value}
    (folder / "config.json").write_text(json.dumps(config))
    return messages[damage]


@pytest.mark.parametrize("damage", ["cut off", "a layer less", "narrower"])
@pytest.mark.parametrize("use", OPENED)
def test_a_folder_that_is_not_whole_is_refused(use: str, damage: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (tiny.classifier if use == "predicted with" else tiny.encoder)(folder)
    OPENED[use](folder)
    message = damaged(folder, damage)
    with pytest.raises(InputError, match=f"model: {message}"):
        OPENED[use](folder)


def test_an_int8_file_cut_off_is_refused(tmp_path: Path) -> None:
    whole = tiny.classifier(tmp_path / "whole")
    folder = tmp_path / "model"
    folder.mkdir()
    model_folder.save(int8.quantize(model_folder.load_tuned(whole)[0]), folder, whole, tiny.TASK)
    model_folder.load_tuned(folder)
    message = damaged(folder, "cut off")
    with pytest.raises(InputError, match=f"model/bertline.safetensors: {message}"):
        model_folder.load_tuned(folder)
    loading.weights(folder).unlink()
    with pytest.raises(InputError, match=r"model: no bertline\.safetensors; the folder is not complete"):
        model_folder.load_tuned(folder)


@pytest.mark.parametrize("name", own_formats.NAMES)
def test_a_model_is_always_the_same_bytes(name: str, tmp_path: Path) -> None:
    """The stages after it run again if one is another, and safetensors writes metadata in a random order."""
    encoder = tiny.encoder(tmp_path / "encoder")
    digests = set()
    for _ in range(6):
        own_formats.save(name, encoder, tmp_path / "model", tiny.TASK)
        digests.add(provenance.digest(tmp_path / "model"))
        shutil.rmtree(tmp_path / "model")
    assert len(digests) == 1


def test_weights_of_before_november_2026_are_read(tmp_path: Path) -> None:
    """Their metadata are values beside each other, without the digest of config.json."""
    own_formats.save("int8", tiny.encoder(tmp_path / "encoder"), tmp_path / "model", tiny.TASK)
    size, (model, _) = cost.size(tmp_path / "model"), model_folder.load_tuned(tmp_path / "model")
    own_formats.forget_config(tmp_path / "model")
    with safe_open(tmp_path / "model/bertline.safetensors", "pt") as file:
        assert [*file.metadata()] == ["parameters"]
    assert cost.size(tmp_path / "model")["parameters"] == size["parameters"]
    again, _ = model_folder.load_tuned(tmp_path / "model")
    assert all(tensor.equal(again.state_dict()[name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("notes", ["{", "[1]", '"text"', "5"])
def test_notes_that_are_no_mapping_are_one_sentence(notes: str, tmp_path: Path) -> None:
    own_formats.save("int8", tiny.encoder(tmp_path / "encoder"), tmp_path / "model", tiny.TASK)
    file = tmp_path / "model/bertline.safetensors"
    save_file(loading.tensors(file), file, {loading.NOTES: notes})
    with pytest.raises(InputError, match=r"its weights are not readable \(.*\); was the file cut off\?"):
        model_folder.load_tuned(tmp_path / "model")
