"""import_weights takes any Hugging Face folder, however its weights lie in it, and finetune can start from it."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForMaskedLM

from pipelines.checkpoints import new_head
from pipelines.core.errors import InputError
from pipelines.stages import import_weights
from pipelines.text import tokenizer
from tests.support import tiny


@pytest.fixture
def source(checkout: Path) -> Path:
    Path("params.yaml").write_text("import_weights: {published: {source: elsewhere}}")
    return tiny.encoder(checkout / "elsewhere")


def imported() -> Path:
    import_weights.main("published")
    return Path("artifacts/models/published")


@pytest.mark.parametrize("form", ["safetensors", "shards", "pickle", "pickles"])
def test_the_weights_are_the_same_in_every_form(form: str, source: Path) -> None:
    file = source / "model.safetensors"
    state = load_file(file)
    names = sorted(state)
    for number, part in enumerate((names[:5], names[5:]), start=1):
        if form == "shards":
            save_file({name: state[name] for name in part}, source / f"model-0000{number}-of-00002.safetensors")
        if form == "pickles":
            torch.save({name: state[name] for name in part}, source / f"pytorch_model-0000{number}-of-00002.bin")
    if form == "pickle":
        torch.save(state, source / "pytorch_model.bin")
    if form != "safetensors":
        file.unlink()
    folder = imported()
    tensors = load_file(folder / "model.safetensors")
    assert set(tensors) == set(state)
    assert all(tensors[name].equal(tensor) for name, tensor in state.items())
    assert AutoModelForMaskedLM.from_pretrained(folder).config.num_hidden_layers == 2
    assert new_head.for_task(folder, tiny.TASK, "linear").config.num_labels == 3
    assert json.loads((folder / "provenance.json").read_text())["stage"] == "import_weights"


@pytest.mark.parametrize("missing", ["model.safetensors", "config.json", "tokenizer_config.json"])
def test_a_folder_that_is_not_whole_fails_in_one_sentence(missing: str, source: Path) -> None:
    (source / missing).unlink()
    with pytest.raises(InputError, match=f"elsewhere: no {missing}"):
        imported()
    assert not Path("artifacts/models/published").exists()


@pytest.mark.parametrize("name", ["model.safetensors", "model-00001-of-00001.safetensors", "pytorch_model.bin"])
def test_a_file_cut_off_fails_in_one_sentence(name: str, source: Path) -> None:
    state = load_file(source / "model.safetensors")
    (source / "model.safetensors").unlink()
    (torch.save if name.endswith(".bin") else save_file)(state, source / name)
    whole = (source / name).read_bytes()
    for part in (whole[:5000], b""):
        (source / name).write_bytes(part)
        with pytest.raises(
            InputError, match=rf"elsewhere/{name}: its weights are not readable \(.+\); was the file cut off\?"
        ):
            imported()
    assert not Path("artifacts/models/published").exists()


def test_a_pickle_that_runs_code_is_not_run(source: Path) -> None:
    class Attack:
        def __reduce__(self) -> tuple:
            return (Path.touch, (Path("attacked"),))

    (source / "model.safetensors").unlink()
    torch.save({"weight": Attack()}, source / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"pytorch_model\.bin: contains more than tensors"):
        imported()
    assert not Path("attacked").exists()


def test_a_folder_with_only_a_vocabulary_is_imported(checkout: Path) -> None:
    """vocab.txt and config.json alone; whether it has capital letters, the vocabulary says."""
    Path("params.yaml").write_text("import_weights: {published: {source: elsewhere}}")
    source = tiny.encoder(checkout / "elsewhere", japanese=False)
    expected = tokenizer.load(source).encode(["a plain text"]).values.tolist()
    for name in ("tokenizer_config.json", "tokenizer.json"):
        (source / name).unlink()
    folder = imported()
    assert json.loads((folder / "tokenizer_config.json").read_text())["do_lower_case"] is True
    assert tokenizer.load(folder).encode(["a plain text"]).values.tolist() == expected


def test_a_folder_has_no_revisions(source: Path) -> None:
    Path("params.yaml").write_text("import_weights: {published: {source: elsewhere, revision: abc}}")
    with pytest.raises(InputError, match="elsewhere: a folder has no revisions; remove revision: abc"):
        imported()


def test_a_tokenizer_of_another_form_is_one_sentence(source: Path) -> None:
    """Such as the first DeBERTa-v2s, which have only the model of SentencePiece."""
    (source / "vocab.txt").rename(source / "spm.model")
    with pytest.raises(InputError, match=r"elsewhere: no tokenizer\.json and no vocab\.txt; transformers writes a tok"):
        imported()
