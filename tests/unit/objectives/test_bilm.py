"""Two language models against their definition: each reads one way."""

import numpy as np
import torch

from pipelines.objectives import bilm
from tests.support.letters import TOKENIZER, model, sentences


def test_each_language_model_reads_one_way() -> None:
    two = model("bilstm", bilm.auto(bilm.Params()))
    ids = sentences(rows=1, length=8)["input_ids"]
    batch = bilm.corrupt({"input_ids": ids}, np.random.default_rng(0), bilm.Params(), TOKENIZER)
    forward, backward = bilm.predict(two, batch)
    assert forward.labels.tolist() == ids[0, 1:].tolist()
    assert backward.labels.tolist() == ids[0, :-1].tolist()
    changed = ids.clone()
    changed[0, 4] = 5 + (changed[0, 4] - 4) % 10
    ahead, back = bilm.predict(two, {"input_ids": changed})
    same = [torch.allclose(a, b, atol=1e-6) for a, b in zip(forward.logits, ahead.logits, strict=True)]
    assert same == [True] * 4 + [False] * 3  # at t, the forward model has read tokens 0 to t
    same = [torch.allclose(a, b, atol=1e-6) for a, b in zip(backward.logits, back.logits, strict=True)]
    assert same == [False] * 4 + [True] * 3  # at t + 1, the backward model has read t + 1 and what follows


def test_padding_changes_nothing_for_the_language_model_that_reads_backward() -> None:
    two = model("bilstm", bilm.auto(bilm.Params()))
    ids = torch.tensor([[2, 7, 8, 9, 3]])
    padded = {"input_ids": torch.tensor([[2, 7, 8, 9, 3, 0, 0]]), "attention_mask": torch.tensor([[1] * 5 + [0] * 2])}
    expected = two(input_ids=ids).last_hidden_state
    assert torch.allclose(two(**padded).last_hidden_state[:, :5], expected, atol=1e-6)
