"""Every quantization method on every family that it does: smaller on disk, opened again, near to its teacher."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import formats
from pipelines.core import plugins
from pipelines.core.errors import InputError, UsageError
from pipelines.core.resources import Resources
from pipelines.inference.predictor import Predictor
from pipelines.measurement import cost
from pipelines.models.quantization import fake_quantization
from tests.support import kinds, own_formats
from tests.support.compressed import QUANTIZING
from tests.support.fits import EACH_STEP
from tests.support.quantizing import FAMILIES, quantized, teacher

METHODS = "pipelines.compression.methods"
FORMS = {"dynamic_int8": "int8", "static_int8": "qdq", "q8bert": "qdq", "group_quant": "packed"}
WORDS = {"int8": "int8", "qdq": "int8 with fixed ranges", "packed": "packed"}  # of forms in messages


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", QUANTIZING)
def test_a_method_quantizes_a_model_of_the_family(method: str, family: str, checkout: Path) -> None:
    context = teacher("single", family, checkout)
    options = {"learning_rate": 1e-9} if method == "q8bert" else {}
    out = quantized(method, context, **options)
    before, after = (cost.size(folder) for folder in (checkout / "teacher", out))
    assert after["parameters"] == before["parameters"]
    assert after["size_bytes"] < 0.6 * before["size_bytes"], "of a model as tiny as this scales and names are much"
    loaded, whole = Predictor.load(out), Predictor.load(checkout / "teacher")
    rounded, expected = (
        predictor.forward([predictor.encode(kinds.rows("single"))])[0] for predictor in (loaded, whole)
    )
    off, size = np.abs(np.array(rounded) - np.array(expected)).max(), np.abs(np.array(expected)).max()
    assert 0 < off < (0.5 if method == "group_quant" else 0.15) * size
    assert loaded.predict(kinds.rows("single")).num_rows == 24
    with pytest.raises(InputError, match=f"from weights in the format {WORDS[FORMS[method]]}; start"):
        model_folder.check_fit(out, context.tokenizer.vocab_size, 8)


@pytest.mark.parametrize("kind", [kind for kind in kinds.TASKS if kind != "single"])
@pytest.mark.parametrize("method", QUANTIZING)
def test_a_method_quantizes_a_model_for_the_kind_of_rows(method: str, kind: str, checkout: Path) -> None:
    out = quantized(method, teacher(kind, "bert", checkout))
    assert Predictor.load(out).predict(kinds.rows(kind)).num_rows == 24


@pytest.mark.parametrize("family", ["xlnet", "bilstm"])
@pytest.mark.parametrize("method", ["static_int8", "q8bert", "group_quant"])
def test_a_family_with_other_weights_is_refused_before_any_work(method: str, family: str, checkout: Path) -> None:
    context = teacher("single", family, checkout)
    name = {"xlnet": "transformer.layer.0.rel_attn.q", "bilstm": "encoder.layers.0.forward_lstm.weight_ih_l0"}[family]
    message = (
        f"{method} does not take the {family} family, whose layers keep weights outside of linear layers, such as "
    )
    with pytest.raises(UsageError, match=f"{message}{name}; "):
        quantized(method, context)
    assert not (checkout / "state/checkpoints/compress" / method / "fit-1.pt").exists()


@pytest.mark.parametrize("method", ["static_int8", "q8bert", "group_quant"])
def test_a_quantized_model_is_not_quantized_again(method: str, checkout: Path) -> None:
    context = teacher("single", "bert", checkout)
    quantized("dynamic_int8", context)
    with pytest.raises(InputError, match=f"compress: {method}: the teacher has no linear layer of floats"):
        quantized(method, context)


WRONG = {
    "a calibration set of nothing": ("static_int8", {"rows": 0}),
    "a percentile of nothing": ("static_int8", {"percentile": 0}),
    "one bit": ("group_quant", {"bits": 1}),
    "nine bits": ("group_quant", {"bits": 9}),
    "nine bits of a word": ("group_quant", {"embedding_bits": 9}),
    "groups of nothing": ("group_quant", {"rows": 0}),
    "an average that never moves": ("q8bert", {"ema_decay": 1}),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_value_out_of_range_fails_in_one_sentence(name: str) -> None:
    from pipelines.core import params
    from pipelines.entries.compress import Compress

    method, options = WRONG[name]
    entry = Compress(teacher="t", data="d", method=method, **options)
    with pytest.raises(UsageError, match=rf"^params\.yaml: compress\.small\.{next(iter(options))}: "):
        params.options(entry, plugins.load(METHODS, method).Params, "compress.small")


@pytest.mark.parametrize("damage", ["a layer less", "another form"])
@pytest.mark.parametrize("method", QUANTIZING)
def test_a_folder_whose_files_do_not_fit_is_refused(method: str, damage: str, checkout: Path) -> None:
    out = quantized(method, teacher("single", "bert", checkout))
    file, mark = out / "config.json", f"bertline_{FORMS[method]}"
    config = json.loads(file.read_text())
    layers = config[mark]
    if damage == "a layer less":
        config[mark] = dict([*layers.items()][1:]) if isinstance(layers, dict) else layers[1:]
    else:
        config |= {mark: {"bert.encoder.layer.9": [1, 1, 4, 1, 0]} if isinstance(layers, dict) else ["bert.nothing"]}
    file.write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"its config\.json is not the one that its weights were saved with"):
        model_folder.load_tuned(out)
    own_formats.forget_config(out)  # as weights of before have no digest of it
    with pytest.raises(InputError, match=rf"its weights do not fit the layers that config\.json .*{mark}"):
        model_folder.load_tuned(out)


def test_packed_weights_take_as_many_bits_as_asked_for(checkout: Path) -> None:
    """Four bits a weight, eight a word; of each group a step and a least weight."""
    out = quantized("group_quant", teacher("single", "bert", checkout))
    with safe_open(formats.weights(out), "pt") as file:
        names = [name for name in list(file.keys()) if "layer.0.output.dense" in name]
        layer = {name.split(".")[-1]: file.get_tensor(name) for name in names}
        words = file.get_tensor("bert.embeddings.word_embeddings.matrix.packed")
    assert layer["packed"].shape == (32 * 64 // 2,)
    assert layer["step"].shape == layer["least"].shape == (16, 1)
    assert words.dtype == torch.uint8
    vocabulary = json.loads((out / "config.json").read_text())["vocab_size"]
    assert len(words) == vocabulary * 32


@pytest.mark.slow
def test_fewer_bits_give_a_larger_error_and_training_reduces_it(checkout: Path) -> None:
    """Q-BERT's weights are trained while they are rounded: the loss of two bits falls."""
    context = teacher("single", "bert", checkout)
    errors = []
    whole = Predictor.load(checkout / "teacher")
    expected = np.array(whole.forward([whole.encode(kinds.rows("single"))])[0])
    for bits in (8, 4, 2):
        (checkout / str(bits)).mkdir()
        source = teacher("single", "bert", checkout / str(bits))
        loaded = Predictor.load(quantized("group_quant", source, bits=bits))
        logits = np.array(loaded.forward([loaded.encode(kinds.rows("single"))])[0])
        errors.append(np.abs(logits - expected).mean())
    assert errors == sorted(errors)
    trained = quantized("group_quant", context, bits=2, epochs=40, batch_size=8, learning_rate=3e-3)
    labels = kinds.rows("single").column("label").to_pylist()
    right = [mine == other for mine, other in zip(
        Predictor.load(trained).predict(kinds.rows("single")).column("label").to_pylist(), labels, strict=True
    )]  # fmt: skip
    assert np.mean(right) > 0.9


def test_killed_int8_training_resumes_with_its_ranges(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = weights(quantized("q8bert", teacher("single", "bert", checkout)))
    again = checkout / "again"
    again.mkdir()
    resources, ended = Resources(checkpoint_minutes=EACH_STEP), [0]
    end_step = fake_quantization.end_step

    def cut(model: torch.nn.Module) -> None:
        ended[0] += 1
        if ended == [2]:
            raise KeyboardInterrupt
        end_step(model)

    monkeypatch.setattr(fake_quantization, "end_step", cut)
    with pytest.raises(KeyboardInterrupt):
        quantized("q8bert", teacher("single", "bert", again), resources)
    checkpoint = torch.load(checkout / "state/checkpoints/compress/q8bert/fit-1.pt", weights_only=True)["model"]
    ranges = [name for name in checkpoint if name.endswith("inputs.extent")]
    assert len(ranges) > 10
    assert all(checkpoint[name] > 0 for name in ranges)
    (again / "once more").mkdir()
    resumed = weights(quantized("q8bert", teacher("single", "bert", again / "once more"), resources))
    assert ended == [4], "of three steps the first is not taken again, and the second is"
    assert resumed.keys() == whole.keys()
    assert all(tensor.equal(whole[name]) for name, tensor in resumed.items())
    assert any(name.endswith("input_scale") for name in resumed)


def test_ranges_are_the_same_with_and_without_acceleration(checkout: Path) -> None:
    """Rows are packed, and the padding among packed rows does not count, as that of padded rows does not."""
    models = []
    for on in (True, False):
        place = checkout / str(on)
        place.mkdir()
        context = teacher("single", "bert", place)
        for part in context.teacher.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
        models.append(weights(quantized("q8bert", context, Resources(acceleration=on))))
    faster, plain = models
    names = [name for name in faster if name.endswith("input_scale")]
    assert len(names) > 10
    for name in names:
        assert faster[name].numpy() == pytest.approx(plain[name].numpy(), rel=1e-3), name


def weights(folder: Path) -> dict[str, torch.Tensor]:
    with safe_open(formats.weights(folder), "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
