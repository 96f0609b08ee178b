"""The README.md of a model folder: its lines open model and tokenizer with transformers, as bertline has them."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from pipelines.checkpoints import card, new_head
from pipelines.checkpoints import folder as model_folder
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.schema import INPUTS
from pipelines.inference.predictor import Predictor
from pipelines.models.quantization import int8
from pipelines.text import tokenizer
from tests.support import tiny
from tests.support.kinds import TASKS, rows

HEADS = [
    ("modernbert", "single", "native", "mean", "mecab_wordpiece"),
    ("modernbert", "single", "native", None, "wordpiece"),
    ("modernbert", "pair", "linear", "compare", "unigram"),
    ("modernbert", "regression", "mlp", "mean", "bpe"),
    ("modernbert", "single", "native", None, "bpe"),
    ("bert", "pair", "native", None, "bpe"),
    ("albert", "pair", "native", None, "bpe"),
    ("bert", "pair", "native", None, "unigram"),
    ("roberta", "pair", "linear", "compare", "bpe"),
    ("xlnet", "pair", "native", None, "unigram"),
    ("bert", "tagging", "bilstm", None, "mecab_character"),
    ("bert", "choice", "native", None, "mecab_wordpiece"),
    ("electra", "span", "native", None, "mecab_wordpiece"),
    ("bilstm", "single", "linear", "mean", "mecab_wordpiece"),
    ("roberta", "pair", "native", None, "bpe"),
    ("roberta", "pair", "native", None, "wordpiece"),
    ("albert", "single", "native", None, "unigram"),
    ("xlnet", "single", "native", None, "unigram"),
    ("distilbert", "single", "native", None, "wordpiece"),
]
TEXTS = ["映画の公開日が決定、監督が語る。", "The film opens  on Friday, it's said.", "ﾃｽﾄ 12.5％"]


def saved(family: str, kind: str, head: str, pooling: str | None, tokens: str, place: Path) -> Path:
    """The folder of a model of random weights."""
    source, folder = tiny.of_family(family, place / "encoder", tokens=tokens), place / "model"
    folder.mkdir()
    model_folder.save(new_head.for_task(source, TASKS[kind], head, pooling), folder, source, TASKS[kind])
    return folder


def run_lines(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that the lines of the card leave."""
    monkeypatch.chdir(folder)
    (lines,) = re.findall(r"```python\n(.+?)```", (folder / card.FILE).read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(lines, names)
    return names


@pytest.mark.parametrize(("family", "kind", "head", "pooling", "tokens"), HEADS)
def test_the_code_on_a_model_card_opens_the_folder(
    family: str, kind: str, head: str, pooling: str | None, tokens: str, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = saved(family, kind, head, pooling, tokens, checkout)
    theirs = run_lines(folder, monkeypatch)
    ours, _ = model_folder.load_tuned(folder)
    assert type(theirs["model"]) is type(ours)
    weights = theirs["model"].state_dict()
    assert weights.keys() == ours.state_dict().keys()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in ours.state_dict().items())
    loaded = tokenizer.load(folder)
    for text in TEXTS:
        ids = loaded.encode([text]).values.tolist()
        assert theirs["tokenizer"](text, add_special_tokens=False)["input_ids"] == ids
    if kind in ("single", "pair", "regression"):
        check_inputs(theirs, kind, Predictor.load(folder))


def check_inputs(theirs: dict[str, Any], kind: str, predictor: Predictor) -> None:
    """Assert that the card's tokenizer and model read rows as the predictor does, special tokens and types included."""
    table = rows(kind)
    sequences = predictor.encode(table)
    (outputs,) = predictor.forward([sequences])
    records = table.select(INPUTS[kind]).to_pylist()
    assert len(records) > 1
    for record, sequence, output in zip(records, sequences.to_pylist(), outputs, strict=True):
        inputs = theirs["tokenizer"](*record.values(), return_tensors="pt")
        assert inputs["input_ids"][0].tolist() == sequence["input_ids"]
        types = inputs.get("token_type_ids", torch.ones(1, 0))[0].tolist()
        assert types in ([], [int(place >= sequence["first_length"]) for place in range(len(types))])
        assert theirs["model"](**inputs).logits[0].tolist() == pytest.approx(list(output), abs=1e-5)


@pytest.mark.parametrize(
    ("family", "tokens"),
    [
        *((family, "mecab_wordpiece") for family in ("modernbert", "bert", "roberta", "distilbert")),
        ("modernbert", "bpe"),
        ("roberta", "bpe"),
        ("albert", "unigram"),
        ("xlnet", "unigram"),
    ],
)
def test_a_pipeline_of_transformers_answers_as_the_predictor_does(family: str, tokens: str, checkout: Path) -> None:
    """It is given a folder, and nothing else."""
    folder, table = saved(family, "single", "native", None, tokens, checkout), rows("single")
    classify = pipeline("text-classification", model=str(folder))  # nothing asks whether to trust code of the folder
    answers = Predictor.load(folder).predict(table)
    for row, text in zip(answers.to_pylist(), table.column("text").to_pylist(), strict=True):
        (answer,) = classify(text)
        assert answer["label"] == row["label"]
        assert answer["score"] == pytest.approx(row["score"], abs=1e-5)


def test_a_tokenizer_of_another_family_leaves_nothing_behind(checkout: Path) -> None:
    """The vocabulary of an encoder is often that of a model of another family, which has other inputs."""
    modern = saved("modernbert", "single", "native", None, "mecab_wordpiece", checkout)
    bert = new_head.for_task(tiny.of_family("bert", checkout / "bert", tokens="mecab_wordpiece"), TASKS["single"])
    (checkout / "other").mkdir()
    model_folder.save(bert, checkout / "other", modern, TASKS["single"])
    theirs = AutoTokenizer.from_pretrained(checkout / "other")
    pair = theirs("映画", "犬")  # a BERT tells its two texts apart by types, which the class leaves out by default
    assert sum(pair["token_type_ids"]) == len(theirs("犬")["input_ids"]) - 1
    assert "auto_map" not in OpenedFolder(checkout / "other").tokenizer_config


def test_the_card_of_a_folder_that_only_bertline_opens_says_how(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, task = model_folder.load_tuned(saved("bert", "single", "native", None, "wordpiece", checkout))
    (checkout / "small").mkdir()
    model_folder.save(int8.quantize(model), checkout / "small", checkout / "model", task)
    text = (checkout / "small" / card.FILE).read_text(encoding="utf-8")
    assert (
        "transformers does not support the format of its int8 weights. They are in `bertline.safetensors`"
        in " ".join(text.split())
    )
    with pytest.raises(OSError, match=r"no file named model\.safetensors"):
        AutoModelForSequenceClassification.from_pretrained(checkout / "small")
    assert "The answer for a row may depend on the other rows of its batch" in " ".join(text.split())
    assert "An `export` entry writes the model as `model.onnx`" in text
    assert "takes an Arrow table with `text`." in text
    predictor = run_lines(checkout / "small", monkeypatch)["predictor"]
    expected = Predictor.load(checkout / "small").predict(rows("single"))
    assert predictor.predict(rows("single").select(["text"])).equals(expected.drop(["id"]))
    (checkout / "small" / "bertline.safetensors").rename(checkout / "small" / "model.safetensors")
    assert Predictor.load(checkout / "small").predict(rows("single")).equals(expected), "as folders of before have it"
