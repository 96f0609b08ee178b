"""The smallest complete model: two layers with random weights, a tokenizer and a task."""

import json
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModel, BertConfig, BertForMaskedLM

from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import new_head, pretrained
from pipelines.core import plugins
from pipelines.core.schema import METRICS
from pipelines.core.task import Task
from pipelines.models import heads
from pipelines.text import tokenizer as text_tokenizer
from tests.support.places import ROOT

TEXTS = [
    "私は犬が好き。",
    "映画の公開日が決定、監督が語る",
    "新型スマートフォンの予約開始",
    "試合は延長の末に決着した",
] * 4
LABELS = ("film", "phone", "sport")
TASK = Task("tiny", "single", LABELS, "accuracy")
# a params.yaml with such a model as the run `tiny`
PARAMS = """
resources: {threads: 1}
import_weights: {e: {source: x}}
prepare: {rows: {corpus: custom, kind: single, source: x, format: jsonl, files: {test: x}}}
build_vocab: {v: {rows: rows, tokenizer: wordpiece, size: 64}}
encode: {rows: {task: rows, vocab: v, max_length: 16}}
finetune: {tiny: {data: rows, encoder: e}}
evaluate: {tiny: {task: rows}}
promote: {tiny: {run: tiny}}
"""
SHAPES = ROOT / "encoders/shapes"
_SMALL = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
# settings that make each of encoders/shapes tiny
SMALL: dict[str, dict[str, Any]] = {
    "bert": _SMALL | {"max_position_embeddings": 64},
    "roberta": _SMALL | {"max_position_embeddings": 66},
    "albert": _SMALL | {"max_position_embeddings": 64, "embedding_size": 16},
    "electra": _SMALL | {"max_position_embeddings": 64, "embedding_size": 16},
    "modernbert": _SMALL | {"max_position_embeddings": 64},
    "distilbert": {"n_layers": 2, "dim": 32, "n_heads": 2, "hidden_dim": 64, "max_position_embeddings": 64},
    "xlnet": {"n_layer": 2, "d_model": 32, "n_head": 2, "d_inner": 64},
    "mobilebert": _SMALL
    | {"max_position_embeddings": 64, "embedding_size": 16, "intra_bottleneck_size": 32, "true_hidden_size": 32},
    "deberta-v2": _SMALL | {"max_position_embeddings": 64, "relative_attention": True},
    "bilstm": {"num_hidden_layers": 2, "hidden_size": 64},
}


def of_kind(kind: str) -> Task:
    """A task of this kind; kinds with labels have the same ones."""
    labels = LABELS if kind in ("single", "pair", "tagging", "choice") else ()
    return TASK.with_(kind=kind, labels=labels, metric=METRICS[kind][0])


def tokenizer(folder: Path, japanese: bool = True, name: str = "") -> Path:
    """The folder of a tokenizer with a vocabulary learned from TEXTS; `name` is the tokenizer plugin."""
    folder.mkdir(parents=True, exist_ok=True)
    name = name or ("mecab_wordpiece" if japanese else "wordpiece")
    plugin: Any = plugins.load("pipelines.text.tokenizers", name)
    plugin.train(lambda: iter(TEXTS), folder, 300, plugin.Params())
    return folder


def describe(encoded: Path, task: Task, max_length: int, vocab_size: int) -> None:
    """Write the description that the stage `encode` writes next to the ids."""
    task.save(encoded)
    (encoded / "encoding.json").write_text(json.dumps({"max_length": max_length, "vocab_size": vocab_size}))


def shape(family: str, folder: Path) -> Path:
    """The config file of a family: one of encoders/shapes, or a new one with only the family."""
    if (SHAPES / f"{family}.json").is_file():
        return SHAPES / f"{family}.json"
    path = folder / f"{family}.json"
    disentangled = {"position_buckets": 16, "norm_rel_ebd": "layer_norm", "pos_att_type": ["p2c", "c2p"]}
    more = disentangled if family == "deberta-v2" else {}
    path.write_text(json.dumps({"model_type": family} | more))
    return path


def of_family(family: str, folder: Path, dropout: bool = True, tokens: str = "", layers: int = 2) -> Path:
    """The folder of a random encoder of any family; `tokens` is the tokenizer plugin."""
    loaded = text_tokenizer.load(tokenizer(folder, name=tokens))
    drops = {name: 0.0 for name, value in _config(family).items() if "drop" in name and isinstance(value, float)}
    torch.manual_seed(1)
    depth = next(name for name in SMALL[family] if name in ("num_hidden_layers", "n_layers", "n_layer"))
    changes = SMALL[family] | ({} if dropout else drops) | {depth: layers}
    pretrained.start(shape(family, folder), changes, AutoModel, loaded, seed=1).save_pretrained(folder)
    return folder


def _config(family: str) -> dict[str, Any]:
    return AutoConfig.for_model(family).to_dict()


def encoder(folder: Path, japanese: bool = True, layers: int = 2) -> Path:
    """The folder of a random masked-language model."""
    tokenizer(folder, japanese)
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=text_tokenizer.load(folder).vocab_size,
        hidden_size=32,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.3,  # large enough that texts differ
    )
    BertForMaskedLM(config).save_pretrained(folder)
    return folder


def classifier(
    folder: Path,
    kind: str = "single",
    head: str = "native",
    seed: int = 5,
    layers: int = 2,
    labels: tuple[str, ...] = (),
) -> Path:
    """The folder of a fine-tuned model with random weights; `labels` are others than those of `of_kind`."""
    base = encoder(folder.parent / f".{folder.name}.encoder", layers=layers)
    torch.manual_seed(seed)
    task = of_kind(kind).with_(labels=labels) if labels else of_kind(kind)
    model = new_head.for_task(base, task, head)
    for parameter in heads.head_parameters(model):  # large enough that labels differ
        torch.nn.init.normal_(parameter, std=1.0)
    folder.mkdir(parents=True, exist_ok=True)
    model_folder.save(model, folder, base, task)
    return folder
