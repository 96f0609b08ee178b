"""A damaged config of a model in a format of ours ends in one sentence: before memory is taken, before an answer."""

import json
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.compression import variant
from pipelines.core.errors import InputError
from pipelines.inference.predictor import Predictor
from tests.fuzz import seeds
from tests.support import own_formats

MOST_BYTES = 2 << 30  # more address space than before
Change = Callable[[dict[str, Any]], object]


def under(*path: str | int, value: Any) -> Change:
    """A value at a place replaced."""

    def change(values: Any) -> None:
        for key in path[:-1]:
            values = values[key]
        values[path[-1]] = value

    return change


MATRIX = "bert.encoder.layer.0.output.dense.matrix"
# name -> format, what is changed in config.json, what is said
DAMAGED: dict[str, tuple[str, Change, str]] = {
    "no layers in int8": ("int8", lambda v: v.pop("bertline_int8"), "no model.safetensors; the folder is not complete"),
    "layers as one text": (
        "int8",
        under("bertline_int8", value="x"),
        "'bertline_int8' 'x'; a list of layers' names is",
    ),
    "a layer left out": ("int8", lambda v: v["bertline_int8"].pop(), "its weights do not fit the layers that"),
    "a layer twice": (
        "int8",
        lambda v: v["bertline_int8"].append("classifier"),
        "'classifier': it is neither a linear layer nor",
    ),
    "a layer of none": (
        "int8",
        lambda v: v["bertline_int8"].append("bert.encoder"),
        "it is neither a linear layer nor",
    ),
    "int8 as qdq": (
        "int8",
        lambda v: v.update(bertline_qdq=v.pop("bertline_int8")),
        "there is no input_scale",
    ),
    "qdq as int8": ("qdq", lambda v: v.update(bertline_int8=v.pop("bertline_qdq")), "unexpected keyword argument"),
    "a width of no memory": ("qdq", under("intermediate_size", value=10**9), "weights; its file has at most"),
    "a width that overflows": ("qdq", under("intermediate_size", value=10**30), "at most 2,147,483,648 is possible"),
    "another width": ("int8", under("intermediate_size", value=32), "its weight is int8 (64, 32); int8 (32, 32) is"),
    "a negative width": ("int8", under("hidden_size", value=-32), "has hidden_size -32; 1 or more is expected"),
    "labels of no memory": (
        "packed",
        lambda v: v.update(num_labels=10**9) or v.pop("id2label"),
        "'num_labels' 1000000000; at most 1,000,000 is possible",
    ),
    "bits of none": ("packed", under("bertline_packed", MATRIX, 2, value=0), "0 bits, groups of 2 x 0: not possible"),
    "a group of none": ("packed", under("bertline_packed", MATRIX, 3, value=0), "groups of 0 x 0: not possible"),
    "a matrix of no memory": ("packed", under("bertline_packed", MATRIX, 0, value=10**12), "at most 2,147,483,648 is"),
    "a larger matrix": ("packed", under("bertline_packed", MATRIX, 0, value=10**9), "64 is expected"),
    "other bits": (
        "packed",
        under("bertline_packed", MATRIX, 2, value=6),
        "its packed is uint8 (1280,); uint8 (1536,)",
    ),
    "half a form": ("packed", under("bertline_packed", MATRIX, value=[64]), "five whole numbers are expected"),
    "heads of no memory": ("cut", under("bertline_reshaped", "heads", value=[10**9, 1]), "there is no head 2"),
    "heads as a text": ("cut", under("bertline_reshaped", "heads", value="12"), "a whole number for each layer is"),
    "heads of three layers": ("cut", under("bertline_reshaped", "heads", value=[1, 1, 1]), "heads has 3 numbers; the"),
    "a shape of no meaning": ("cut", under("bertline_reshaped", "head", value=[1, 2]), "no shape 'head'"),
    "shapes as a list": ("cut", under("bertline_reshaped", value=[1]), "it must map names to values"),
    "layers without end": ("cut", under("num_hidden_layers", value=10**9), "at most 10,000 is possible"),
    "too many layers": ("shared", under("num_hidden_layers", value=9000), "requires more than"),
    "groups in groups": (
        "shared",
        under("bertline_reshaped", "groups", value=[[0], 0]),
        "a whole number for each layer",
    ),
    "a rank of no memory": (
        "factorized",
        under("bertline_reshaped", "embedding", value=10**9),
        "weights; its file has at most",
    ),
    "a rank of 0": ("factorized", under("bertline_reshaped", "embedding", value=0), "a whole number is expected"),
    "no shapes": ("factorized", lambda v: v.pop("bertline_reshaped"), "no model.safetensors"),
    "another head": ("mlp", under("head", value="mlpp"), "no head 'mlpp' (did you mean 'mlp'?)"),
    "another pooling": ("mlp", under("pooling", value="max"), "no pooling 'max'"),
    "other features": ("mlp", under("features", value=[4]), "no features '[4]'"),
    "no encoder": ("mlp", lambda v: v.pop("encoder"), "encoder: missing"),
    "an encoder that is a text": ("mlp", under("encoder", value="bert"), "its config.json is not valid"),
    "a wide BiLSTM": ("bilstm", under("encoder", "hidden_size", value=10**6), "weights; its file has at most"),
    "an odd BiLSTM": ("bilstm", under("encoder", "hidden_size", value=17), "is not divisible by 2"),
    "padding of none": ("bilstm", under("encoder", "pad_token_id", value=10**6), "no model can be built from its"),
    "a step of rows": ("qdq", under("chunk_size_feed_forward", value=7), "its model does not run with its config.json"),
    "a decoder": ("int8", under("is_decoder", value=True), "has is_decoder True; bertline takes only encoders"),
    "answers as a tuple": ("cut", under("return_dict", value=False), "its model does not run with its config.json"),
}


@pytest.fixture
def bounded() -> Iterator[None]:
    """No more address space than this process has, and MOST_BYTES."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MOST_BYTES, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def mutant(name: str, change: Change, file: str = "config.json") -> Path:
    shutil.copytree(Path("seeds/own") / name, "mutant")
    values = json.loads(Path("mutant", file).read_text())
    change(values)
    Path("mutant", file).write_text(json.dumps(values))
    return Path("mutant")


@pytest.mark.timeout(20, func_only=True)
@pytest.mark.parametrize("name", DAMAGED)
def test_a_wrong_config_is_refused(name: str, place: Path, bounded: None) -> None:
    form, change, message = DAMAGED[name]
    folder = mutant(form, change)
    own_formats.forget_config(folder)
    with pytest.raises(InputError) as caught:
        Predictor.load(folder)
    assert message in str(caught.value)
    assert str(caught.value).startswith("mutant: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("form", ["int8", "qdq", "packed", "cut", "shared"])
def test_a_value_that_no_weight_shows_is_refused(form: str, place: Path) -> None:
    """Another activation gives other answers of the same shapes; the weights say which config is theirs."""
    folder = mutant(form, under("hidden_act", value="relu"))
    with pytest.raises(InputError, match=r"its config\.json is not the one that its weights were saved with"):
        Predictor.load(folder)
    (folder / "config.json").write_text(json.dumps(json.loads((Path("seeds/own") / form / "config.json").read_text())))
    Predictor.load(folder)  # other spaces are no other config


def test_weights_are_computed_with_as_floats_of_32_bits(place: Path) -> None:
    """Whatever dtype a config names, as in Hugging Face's own format."""
    folder = mutant("packed under a head", lambda values: values.update(torch_dtype="float16"))
    own_formats.forget_config(folder)
    table = seeds.readable("single")
    assert Predictor.load(folder).predict(table).equals(seeds.answers(Path("seeds/own/packed under a head"), "single"))


@pytest.mark.parametrize("form", own_formats.NAMES)
def test_a_folder_without_a_digest_opens_as_before(form: str, place: Path) -> None:
    """Those that were written before are opened as they were."""
    folder = mutant(form, lambda values: None)
    own_formats.forget_config(folder)
    expected = seeds.answers(Path("seeds/own") / form, "single")
    assert Predictor.load(folder).predict(seeds.readable("single")).equals(expected)


VARIANTS: dict[str, tuple[Change, str]] = {
    "no chain": (lambda v: v.pop("chain"), "chain: missing"),
    "a step without a run": (lambda v: v["chain"][0].pop("run"), "chain.0.run: missing"),
    "a teacher that is a text": (under("teacher", value="t"), "teacher: 't'"),
    "a negative share": (under("sparsity", value=-1.0), "sparsity: -1.0"),
    "operations as a text": (under("flops_per_token", value="9"), "flops_per_token: '9'"),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_wrong_variant_file_is_refused(name: str, place: Path) -> None:
    change, message = VARIANTS[name]
    folder = mutant("int8", change, variant.FILE)
    with pytest.raises(InputError) as caught:
        variant.facts(folder)
    assert str(caught.value).startswith("mutant/variant.json: ")
    assert message in str(caught.value)
