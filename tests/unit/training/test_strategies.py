"""What trains under each strategy and at which rate; what does not has neither gradients nor dropout."""

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification

from pipelines.checkpoints import new_head, pretrained
from pipelines.core.errors import UsageError
from pipelines.entries.finetune import Finetune
from pipelines.models import backbones, heads
from pipelines.text import tokenizer as text_tokenizer
from pipelines.training import optim, strategies
from tests.support import tiny

ENTRY = {"data": "d", "encoder": "e", "learning_rate": 1e-3}
TRAINS = {"full": "embeddings, layer 1, layer 2, head", "top_k": "layer 2, head", "frozen": "head"}


@pytest.fixture
def model(checkout: Path) -> torch.nn.Module:
    return new_head.for_task(tiny.encoder(checkout / "encoder"), tiny.TASK)


@pytest.mark.parametrize("strategy", TRAINS)
@pytest.mark.parametrize("family", ["bert", "modernbert", "deberta-v2"])  # the last two have something above the layers
def test_what_trains_is_in_one_group_and_the_rest_stands_still(family: str, strategy: str, checkout: Path) -> None:
    model = new_head.for_task(tiny.of_family(family, checkout / "encoder"), tiny.TASK)
    groups = strategies.groups(model, Finetune(**ENTRY, strategy=strategy, top_k=1))
    grouped = [id(p) for group in groups for p in group["params"]]
    assert len(grouped) == len(set(grouped))
    assert set(grouped) == {id(p) for p in model.parameters() if p.requires_grad}
    above = [p.requires_grad for part in backbones.top(model) for p in part.parameters()]
    assert above == [strategy != "frozen"] * len(above)
    assert bool(above) == (family != "bert")
    assert strategies.describe(model).endswith(f" parameters train: {TRAINS[strategy]}")
    strategies.train_mode(model.eval())
    assert model.training
    assert {part.training for part in backbones.embeddings(model)} == {strategy == "full"}
    assert [layer.training for layer in backbones.layers(model)] == [strategy == "full", strategy != "frozen"]


@pytest.mark.parametrize("family", ["xlnet", "deberta-v2"])  # both have dropout outside of embeddings and layers
def test_a_frozen_encoder_gives_the_same_states_every_time(family: str, checkout: Path) -> None:
    convolution = {"conv_kernel_size": 3, "conv_act": "gelu"} if family == "deberta-v2" else {}
    config = checkout / "config.json"
    config.write_text(json.dumps(json.loads(tiny.shape(family, checkout).read_text()) | convolution))
    tokenizer = text_tokenizer.load(tiny.tokenizer(checkout / "tokenizer"))
    model = pretrained.start(config, tiny.SMALL[family], AutoModelForSequenceClassification, tokenizer, 1)
    ids, encoder = torch.arange(5, 15)[None], backbones.encoder(model)
    for strategy in TRAINS:
        strategies.groups(model, Finetune(**ENTRY, strategy=strategy, top_k=1))
        strategies.train_mode(model)
        first, second = (encoder(input_ids=ids).last_hidden_state for _ in range(2))
        assert first.equal(second) == (strategy == "frozen")


def test_each_top_layer_has_its_own_rate(model: torch.nn.Module) -> None:
    entry = Finetune(
        **ENTRY, strategy="top_k", top_k=2, optimizer="sgd", layer_learning_rates=[1e-3, 5e-4], head_learning_rate=0.1
    )
    groups = strategies.groups(model, entry)
    rate = {id(p): group["lr"] for group in optim.optimizer(model, groups, entry).param_groups for p in group["params"]}
    low, top = backbones.layers(model)
    assert {rate[id(p)] for p in top.parameters()} == {1e-3}
    assert {rate[id(p)] for p in low.parameters()} == {5e-4}
    assert {rate[id(p)] for p in heads.head_parameters(model)} == {0.1}
    with pytest.raises(UsageError, match="1 rates for the top 2 layers"):
        strategies.groups(model, entry.model_copy(update={"layer_learning_rates": [1e-3]}))
    with pytest.raises(UsageError, match="top_k: 9; the encoder has only 2 layers"):
        strategies.groups(model, entry.model_copy(update={"top_k": 9}))


def test_rates_of_layers_are_ignored_where_no_layer_has_one(model: torch.nn.Module) -> None:
    entry = Finetune(**ENTRY, strategy="frozen", layer_learning_rates=[1e-3, 5e-4])
    assert [group["lr"] for group in strategies.groups(model, entry)] == [1e-3]


def test_layers_decay_downward_and_each_parameter_is_in_one_group(model: torch.nn.Module) -> None:
    entry = Finetune(**ENTRY, layer_decay=0.5)
    groups = strategies.groups(model, entry)
    assert [group["lr"] for group in groups] == [1e-3, 5e-4, 2.5e-4, 1e-3]  # top, low, embeddings, head
    every = [id(p) for group in groups for p in group["params"]]
    assert len(every) == len(set(every)) == len(list(model.parameters()))
    low, top = backbones.layers(model)
    assert {id(p) for p in top.parameters()} == {id(p) for p in groups[0]["params"]}
    assert {id(p) for p in low.parameters()} == {id(p) for p in groups[1]["params"]}
