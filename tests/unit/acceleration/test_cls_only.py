"""The last layer for the first token alone: the same scores and the same gradients as the whole layer."""

from pathlib import Path

import pytest
import torch

from pipelines.acceleration import cls_only
from pipelines.checkpoints import new_head
from pipelines.models import backbones, shapes
from pipelines.training import losses
from pipelines.training.batches import collate
from pipelines.training.loop import Loss
from tests.support import tiny
from tests.support.kinds import TASKS, encoded

HEADS = [("single", "native"), ("regression", "linear"), ("choice", "native")]


@pytest.mark.parametrize("family", sorted(cls_only.LAYERS))
def test_a_layer_may_have_lost_heads(family: str, checkout: Path) -> None:
    model, batch = head_and_batch(family, "single", "native", checkout)
    shapes.keep_heads(model, len(backbones.layers(model)) - 1, [1])
    inputs = backbones.inputs(model, batch)
    with torch.inference_mode():
        whole = model.eval()(**inputs).logits
        with cls_only.only(model, "single") as on:
            assert on
            assert model(**inputs).logits.allclose(whole, atol=1e-5)


@pytest.mark.parametrize(("kind", "head"), HEADS)
@pytest.mark.parametrize("family", sorted(cls_only.LAYERS))
def test_scores_and_gradients_are_the_whole_layers(family: str, kind: str, head: str, checkout: Path) -> None:
    model, batch = head_and_batch(family, kind, head, checkout)
    loss = losses.for_kind(kind)
    gradients_by = {}
    for attention in ("eager", "sdpa"):
        model.set_attn_implementation(attention)
        for only in (False, True):
            model.zero_grad()
            if only:
                with cls_only.only(model, kind):
                    lengths = last_states(model, loss, batch)
                assert set(lengths) == {1}
            else:
                lengths = last_states(model, loss, batch)
                assert set(lengths) == {batch["input_ids"].shape[-1]}
            gradients_by[attention, only] = {
                n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None
            }
    whole = gradients_by["eager", False]
    assert sum(float(gradient.abs().sum()) for gradient in whole.values()) > 0
    for gradients in gradients_by.values():
        assert gradients.keys() == whole.keys()
        assert all(torch.allclose(gradients[name], whole[name], atol=1e-5) for name in whole)


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_weights_of_attention_are_dropped_while_training_alone(family: str, checkout: Path) -> None:
    model, batch = head_and_batch(family, "single", "native", checkout)
    layer = backbones.layers(model)[-1]
    for part in layer.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    dropped = ("attention.self.dropout", "p") if family == "bert" else ("attn", "attention_dropout")
    setattr(layer.get_submodule(dropped[0]), dropped[1], 0.5)

    def scores() -> torch.Tensor:
        with cls_only.only(model, "single"):
            return model(**{name: batch[name] for name in ("input_ids", "attention_mask")}).logits

    assert scores().equal(scores())
    layer.train()
    assert not scores().equal(scores())


def last_states(model: torch.nn.Module, loss: Loss, batch: dict) -> list[int]:
    """One step forward and back; the tokens that the last layer gave states of."""
    lengths: list[int] = []
    hook = backbones.layers(model)[-1].register_forward_hook(lambda _, __, states: lengths.append(states.shape[1]))
    loss(model, batch, 0)[0].backward()
    hook.remove()
    return lengths


def head_and_batch(family: str, kind: str, head: str, checkout: Path) -> tuple[torch.nn.Module, dict]:
    source = tiny.of_family(family, checkout / "encoder")
    data = encoded(kind, checkout / "encoded", source)
    torch.manual_seed(2)
    model = new_head.for_task(source, TASKS[kind], head).eval()
    rows = torch.arange(4).numpy()
    return model, collate(data, rows, 0)


@pytest.mark.parametrize(
    ("family", "kind", "head", "pooling"),
    [
        ("bert", "tagging", "native", None),
        ("bert", "span", "native", None),
        ("bert", "single", "linear", "mean"),
        ("albert", "single", "native", None),
        ("modernbert", "single", "native", "mean"),
    ],
)
def test_a_head_that_reads_other_tokens_keeps_the_whole_layer(
    family: str, kind: str, head: str, pooling: str | None, checkout: Path
) -> None:
    source = tiny.of_family(family, checkout / "encoder")
    model = new_head.for_task(source, TASKS[kind], head, pooling)
    with cls_only.only(model, kind):
        assert "forward" not in vars(backbones.layers(model)[-1])
