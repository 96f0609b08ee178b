"""Layers that share weights, and tables of two matrices: by NumPy, and against the models that they come from."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import nn

from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import formats, new_head
from pipelines.compression.methods import share_layers
from pipelines.core.errors import UsageError
from pipelines.measurement import cost
from pipelines.models import backbones, heads, shapes
from pipelines.models.factorized import Factorized
from pipelines.training.batches import RowBatches
from tests.support import compressed, kinds, tiny

IDS = torch.tensor([[2, 9, 7, 8, 3], [2, 8, 3, 0, 0]])
INPUTS = {"input_ids": IDS, "attention_mask": (IDS > 0).long(), "token_type_ids": torch.zeros_like(IDS)}


def test_groups_are_those_of_albert() -> None:
    assert shapes.divided(12, 1) == [0] * 12
    assert shapes.divided(12, 3) == [0] * 4 + [1] * 4 + [2] * 4
    assert shapes.divided(5, 2) == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("kind", kinds.TASKS)
def test_a_bert_as_an_albert_is_the_same_function(kind: str, checkout: Path) -> None:
    """As many groups as layers: nothing is shared yet, and the outputs are BERT's."""
    folder = compressed.teacher("bert", kind, checkout / "teacher")
    model, _ = model_folder.load_tuned(folder)
    albert = share_layers.as_albert(model, kind, 2)
    with torch.inference_mode():
        expected, logits = (heads.outputs(encoder, kind, INPUTS) for encoder in (model, albert))
    assert logits.allclose(expected, atol=1e-5)
    assert type(albert).__name__ == type(model).__name__.replace("Bert", "Albert")


@pytest.mark.parametrize("start", ["mean", "lowest"])
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_the_shared_weights_begin_as_they_are_asked_to(family: str, start: str, checkout: Path) -> None:
    folder = compressed.teacher(family, "single", checkout / "teacher")
    model, _ = model_folder.load_tuned(folder)
    both = [layer.intermediate.dense.weight.detach().double().numpy() for layer in backbones.layers(model)]
    assert not np.allclose(*both)
    shared, facts = compressed.compressed("share_layers", folder, "single", checkout / "out", start=start, epochs=0)
    assert facts == {"groups": [0, 0]}
    layer = backbones.layers(shared)[0]
    weight = (layer.albert_layers[0].ffn if family == "bert" else layer.intermediate.dense).weight
    assert weight.detach().numpy() == pytest.approx((both[0] + both[1]) / 2 if start == "mean" else both[0], abs=1e-6)
    native = "AlbertForSequenceClassification" if family == "bert" else "RobertaForSequenceClassification"
    assert type(shared).__name__ == native


@pytest.mark.parametrize("family", ["bert", "roberta", "xlnet"])
def test_layers_that_share_learn_the_states_of_the_teacher(family: str, checkout: Path) -> None:
    """The head, which the loss of states does not read, stays as it is until the fine-tuning."""
    folder = compressed.teacher(family, "single", checkout / "teacher")
    model, _ = model_folder.load_tuned(folder)
    rows = kinds.encoded("single", checkout / "rows.encoded", folder)
    batch = RowBatches(rows, len(rows), 1, 0, model.config.pad_token_id)[0]

    def states(model: Any) -> torch.Tensor:
        with torch.inference_mode():
            outputs = backbones.encoder(model.eval())(**backbones.inputs(model, batch), output_hidden_states=True)
        return torch.stack(outputs.hidden_states[1:])[:, batch["attention_mask"].bool()]

    distances = []
    for epochs in (0, 10):
        out = checkout / f"out-{epochs}"
        student, _ = compressed.compressed("share_layers", folder, "single", out, transfer_epochs=epochs, epochs=0)
        distances.append((states(student) - states(model)).square().mean().item())
        for new, old in zip(heads.head_parameters(student), heads.head_parameters(model), strict=True):
            assert new.equal(old)
    assert distances[1] < 0.5 * distances[0], distances


def test_what_cannot_be_shared_fails_in_one_sentence(checkout: Path) -> None:
    folder = compressed.teacher("bert", "single", checkout / "teacher")
    with pytest.raises(UsageError, match="groups: 2 for 2 layers; take fewer"):
        compressed.compressed("share_layers", folder, "single", checkout / "out", groups=2)
    compressed.compressed("prune_heads", folder, "single", checkout / "cut", share=0.25)
    with pytest.raises(UsageError, match="layers of one group differ in the size of attention"):
        compressed.compressed("share_layers", checkout / "cut", "single", checkout / "out")


def test_a_bert_under_a_head_of_ours_keeps_its_architecture(checkout: Path) -> None:
    source = tiny.of_family("bert", checkout / "encoder")
    model = new_head.for_task(source, kinds.TASKS["single"], "mlp", "mean")
    (checkout / "teacher").mkdir()
    model_folder.save(model, checkout / "teacher", source, kinds.TASKS["single"])
    shared, _ = compressed.compressed("share_layers", checkout / "teacher", "single", checkout / "out")
    assert type(shared) is type(model)
    opened, _ = model_folder.load_tuned(checkout / "out")
    first, second = backbones.layers(opened)
    assert all(p is q for p, q in zip(first.parameters(), second.parameters(), strict=True))
    with torch.inference_mode():
        assert opened(**INPUTS).logits.equal(shared.eval()(**INPUTS).logits)


@pytest.mark.parametrize("family", ["roberta", "modernbert"])
@pytest.mark.parametrize("method", ["dynamic_int8", "static_int8", "q8bert", "group_quant"])
def test_shared_weights_are_rounded_and_stored_once(method: str, family: str, checkout: Path) -> None:
    folder = compressed.teacher(family, "single", checkout / "teacher")
    compressed.compressed("share_layers", folder, "single", checkout / "shared")
    rounded, _ = compressed.compressed(method, checkout / "shared", "single", checkout / "rounded")
    opened, _ = model_folder.load_tuned(checkout / "rounded")
    inputs = backbones.inputs(opened, INPUTS)
    with torch.inference_mode():
        assert opened(**inputs).logits.equal(rounded(**inputs).logits)
    norms = [[p for p in layer.parameters() if p.dim() == 1][-1] for layer in backbones.layers(opened)]
    assert norms[0] is norms[1]
    sizes = [cost.size(checkout / name)["parameters"] for name in ("shared", "rounded")]
    assert sizes[0] == sizes[1]
    with safe_open(formats.weights(checkout / "rounded"), "pt") as file:
        written = [name for name in file.keys() if file.get_tensor(name).dim() > 1]  # noqa: SIM118
    apart = [name for name in written if re.search(r"layers?\.1\.", name)]
    assert apart == [], f"of the second layer: {apart}"


def test_the_best_two_matrices_by_numpy() -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(30, 12)) @ rng.normal(size=(12, 12))
    factorized = Factorized(30, 5, 12, padding_idx=0)
    share = factorized.fill(torch.from_numpy(table))
    u, s, vt = np.linalg.svd(table, full_matrices=False)
    product = (factorized.words.weight @ factorized.up.weight.T).detach().numpy()
    assert product == pytest.approx(u[:, :5] * s[:5] @ vt[:5], abs=1e-4)
    assert np.linalg.norm(table - product) ** 2 == pytest.approx((s[5:] ** 2).sum(), rel=1e-4)  # Eckart and Young
    assert share == pytest.approx((s[:5] ** 2).sum() / (s**2).sum())
    assert factorized(torch.tensor([[3, 4]]))[0].detach().numpy() == pytest.approx(product[3:5], abs=1e-5)


def test_an_encoder_takes_its_table_apart_once() -> None:
    table = nn.Embedding(10, 4)

    class Encoder(nn.Module):
        def get_input_embeddings(self) -> nn.Module:
            return self.words

        def set_input_embeddings(self, value: nn.Module) -> None:
            self.words = value

    encoder = Encoder()
    encoder.words = table
    factorized = Factorized.put(encoder, 2)
    assert Factorized.put(encoder, 2) is factorized
    assert (factorized.rank, factorized(torch.tensor([1])).shape) == (2, (1, 4))


def test_a_size_that_saves_nothing_fails_in_one_sentence(checkout: Path) -> None:
    folder = compressed.teacher("bert", "single", checkout / "teacher")
    with pytest.raises(UsageError, match=r"size: 32 makes a table of \d+ x 32 no smaller; take up to \d+"):
        compressed.compressed("factorize_embeddings", folder, "single", checkout / "out", size=32)
    compressed.compressed("factorize_embeddings", folder, "single", checkout / "small", size=4)
    with pytest.raises(UsageError, match="size: the teacher's embedding is factorized already, to 4"):
        compressed.compressed("factorize_embeddings", checkout / "small", "single", checkout / "out", size=2)
