"""Heads of ours: what they read of an encoder, and that what is saved is what was trained."""

from pathlib import Path

import pytest
import torch

from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import new_head
from pipelines.core.errors import UsageError
from pipelines.entries.finetune import Finetune
from pipelines.models import heads
from pipelines.models.features import COMBINATIONS
from pipelines.training import strategies
from tests.support import tiny

IDS = torch.tensor([[2, 9, 8, 7, 3], [2, 6, 3, 0, 0]])
MASK = torch.tensor([[1] * 5, [1] * 3 + [0] * 2])
FEATURES = [*COMBINATIONS, "weighted_sum"]


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("head", ["linear", "mlp", "bilstm"])
@pytest.mark.parametrize("kind", ["single", "tagging"])
def test_what_is_saved_is_opened_again(kind: str, head: str, features: str, checkout: Path) -> None:
    source, task = tiny.encoder(checkout / "encoder", layers=4), tiny.of_kind(kind)
    model = new_head.for_task(source, task, head, "mean", features).eval()
    expected = heads.outputs(model, kind, {"input_ids": IDS, "attention_mask": MASK})
    assert expected.shape == ((2, 3) if kind == "single" else (2, 5, 7))
    (checkout / "model").mkdir()
    model_folder.save(model, checkout / "model", source, task)
    again, _ = model_folder.load_tuned(checkout / "model")
    outputs = heads.outputs(again, kind, {"input_ids": IDS, "attention_mask": MASK})
    assert torch.allclose(outputs, expected, atol=1e-6)
    assert all(tensor.equal(model.state_dict()[name]) for name, tensor in again.state_dict().items())
    alone = heads.outputs(again, kind, {"input_ids": IDS[1:, :3], "attention_mask": MASK[1:, :3]})
    assert torch.allclose(alone[0], expected[1, : alone.shape[1]] if kind == "tagging" else expected[1], atol=1e-5)


@pytest.mark.parametrize("family", ["bert", "modernbert"])
@pytest.mark.parametrize("features", ["last", "embeddings", "weighted_sum"])
@pytest.mark.parametrize("head", ["linear", "mlp", "bilstm"])
def test_two_texts_are_compared_by_their_own_tokens(head: str, features: str, family: str, checkout: Path) -> None:
    """One family has token types of its own, the other does not: the head reads them either way."""
    source, task = tiny.of_family(family, checkout / "encoder"), tiny.of_kind("pair")
    model = new_head.for_task(source, task, head, "compare", features).eval()
    types = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]])
    batch = {"input_ids": IDS, "attention_mask": MASK, "token_type_ids": types}
    batch_without_ids = {name: batch[name] for name in batch if name != "input_ids"}
    tokens = model.tokens(IDS, batch_without_ids)
    parts = [(tokens[0, :2], tokens[0, 2:]), (tokens[1, :1], tokens[1, 1:3])]
    means = [(u.mean(dim=0), v.mean(dim=0)) for u, v in parts]
    pooled = torch.stack([torch.cat([u, v, (u - v).abs(), u * v]) for u, v in means])
    assert torch.allclose(heads.outputs(model, "pair", batch), model.classifier(pooled), atol=1e-5)
    (checkout / "model").mkdir()
    model_folder.save(model, checkout / "model", source, task)
    again, _ = model_folder.load_tuned(checkout / "model")
    assert torch.allclose(heads.outputs(again, "pair", batch), heads.outputs(model, "pair", batch), atol=1e-6)


def test_a_pooling_that_cannot_be_is_refused(checkout: Path) -> None:
    source = tiny.encoder(checkout / "encoder")
    with pytest.raises(UsageError, match="rows of kind single do not have two texts to compare"):
        new_head.for_task(source, tiny.TASK, "linear", "compare")
    with pytest.raises(UsageError, match="pooling: mean: the bert family's native head does not support it"):
        new_head.for_task(source, tiny.TASK, "native", "mean")
    with pytest.raises(UsageError, match="features: embeddings: the native head reads the last layer"):
        new_head.for_task(source, tiny.TASK, "native", features="embeddings")
    with pytest.raises(UsageError, match="features: concat_last_four: the encoder has 2 layers"):
        new_head.for_task(source, tiny.TASK, "linear", "mean", "concat_last_four")


def test_features_are_the_papers_combinations_of_layers(checkout: Path) -> None:
    source = tiny.encoder(checkout / "encoder", layers=4)
    model = new_head.for_task(source, tiny.TASK, "linear").eval()
    states = model.encoder(input_ids=IDS, attention_mask=MASK, output_hidden_states=True).hidden_states
    assert len(states) == 5
    expected = {
        "embeddings": states[0],
        "second_to_last": states[3],
        "last": states[4],
        "sum_last_four": states[1] + states[2] + states[3] + states[4],
        "concat_last_four": torch.cat([states[1], states[2], states[3], states[4]], dim=-1),
        "weighted_sum": (states[0] + states[1] + states[2] + states[3] + states[4]) / 5,  # before it is trained
    }
    for name, features in expected.items():
        reading = new_head.for_task(source, tiny.TASK, "linear", features=name).eval()
        tokens = reading.tokens(IDS, {"attention_mask": MASK})
        assert torch.allclose(tokens, features, atol=1e-5), name


def test_a_frozen_encoder_leaves_the_head_to_train(checkout: Path) -> None:
    source = tiny.encoder(checkout / "encoder")
    entry = Finetune(data="d", encoder="e", strategy="frozen", head="bilstm", features="weighted_sum")
    model = new_head.for_task(source, tiny.TASK, entry.head, entry.pooling, entry.features)
    (group,) = strategies.groups(model, entry)
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert {name.split(".")[0] for name in trained} == {"weights", "scale", "lstm", "classifier"}
    assert len(group["params"]) == len(trained)
