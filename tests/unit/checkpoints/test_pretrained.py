"""What pretraining cannot begin with is said in one sentence, before any work."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForPreTraining

from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import pretrained
from pipelines.core.errors import InputError
from pipelines.models import backbones
from pipelines.text import tokenizer
from tests.support import tiny

FILES = {
    "no JSON": ('{"model_type": "bert",', r"line 1: not JSON"),
    "no mapping": ("[1]", r"it must map names to values"),
    "another family": ('{"model_type": "gpt2"}', r"no model_type 'gpt2'; there are: albert, bert"),
    "no family": ("{}", r"no model_type 'None'; there are: albert, bert"),
}
CHANGES: dict[str, tuple[str, dict[str, Any], str]] = {
    "a misspelt name": ("bert", {"num_hidden_layer": 2}, r"config: no name 'num_hidden_layer' \(did you mean 'num_h"),
    "the vocabulary's size": ("bert", {"vocab_size": 5}, r"config: no name 'vocab_size'"),
    "another family": ("bert", {"model_type": "albert"}, r"config: no name 'model_type'"),
    "a word for a number": ("modernbert", {"hidden_size": "many"}, r"modernbert.json: .*expected int, got str"),
    "a width less than nothing": (
        "bert",
        {"hidden_size": -32},
        r"bert.json: no model can be built with these sizes: .*negative",
    ),
    "no heads": ("bert", {"num_attention_heads": 0}, r"hidden_size 32 is not divisible by num_attention_heads 0"),
    "rotary heads of odd width": ("modernbert", {"hidden_size": 30}, r"no model can be built with these sizes: .*15"),
    "no half": ("bilstm", {"hidden_size": 33}, r"hidden_size 33 is not divisible by 2: each direction"),
    "deberta's second head": ("deberta-v2", {"legacy": False}, r"legacy: false has a masked-token head that is "),
    "xlnet's own names": ("xlnet", {"d_model": 33}, r"no model can be built with these sizes: .*'d_model % n_head'"),
} | {
    f"a width that its heads do not divide, {family}": (
        family,
        {"hidden_size": 33},
        r"hidden_size 33 is not divisible by num_attention_heads 2",
    )
    for family in ("bert", "roberta", "albert", "electra", "modernbert")
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_config_is_one_sentence(name: str, tmp_path: Path) -> None:
    text, message = FILES[name]
    file = tmp_path / "shape.json"
    file.write_text(text)
    with pytest.raises(InputError, match=rf"shape\.json: {message}"):
        pretrained.family(file)


@pytest.mark.parametrize("name", CHANGES)
def test_a_shape_that_makes_no_model_is_one_sentence(name: str, tmp_path: Path) -> None:
    family, changes, message = CHANGES[name]
    loaded = tokenizer.load(tiny.tokenizer(tmp_path))
    auto = AutoModelForPreTraining if family in ("bilstm", "xlnet") else AutoModelForMaskedLM
    with pytest.raises(InputError, match=message) as refused:
        pretrained.start(tiny.shape(family, tmp_path), tiny.SMALL[family] | changes, auto, loaded, seed=1)
    assert "\n" not in str(refused.value)


def test_a_config_of_a_model_in_half_precision_makes_one_in_fp32(tmp_path: Path) -> None:
    shape = tmp_path / "bert.json"
    shape.write_text(json.dumps(json.loads((tiny.SHAPES / "bert.json").read_text()) | {"torch_dtype": "bfloat16"}))
    loaded = tokenizer.load(tiny.tokenizer(tmp_path / "tokenizer"))
    model = pretrained.start(shape, tiny.SMALL["bert"], AutoModelForMaskedLM, loaded, seed=1)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_a_place_without_a_model_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: no such model folder or config file"):
        pretrained.family(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"no config\.json; it is not a model folder"):
        pretrained.family(tmp_path)


def test_sequences_longer_than_the_positions_are_one_sentence() -> None:
    shape = tiny.SHAPES / "roberta.json"
    values = json.loads(shape.read_text()) | {"max_position_embeddings": 66, "pad_token_id": 1}
    model_folder.check_length(values, shape, 64)
    with pytest.raises(InputError, match=r"roberta\.json: it has 64 positions, encode\.max_length is 65"):
        model_folder.check_length(values, shape, 65)
    model_folder.check_length({"model_type": "xlnet"}, shape, 10**6)


def test_a_head_that_a_folder_lacks_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    whole, bare = tiny.encoder(tmp_path / "whole"), tiny.encoder(tmp_path / "bare")
    AutoModel.from_pretrained(bare).save_pretrained(bare)
    loaded = tokenizer.load(whole)
    pretrained.start(whole, {}, AutoModelForMaskedLM, loaded, seed=1)
    assert "start at random" not in capsys.readouterr().err
    one, again, two = (pretrained.start(bare, {}, AutoModelForMaskedLM, loaded, seed) for seed in (1, 1, 2))
    assert backbones.digest(one) == backbones.digest(again) != backbones.digest(two)
    assert "weights of a head or a pooler are missing and start at random: cls.predictions." in capsys.readouterr().err
