"""ELECTRA's objective and its variants against their definition."""

import numpy as np
import pytest
import torch

from pipelines.core.errors import UsageError
from pipelines.models.batch import IGNORE
from pipelines.objectives import replaced_token
from tests.support.letters import TOKENIZER, model, sentences


def test_a_generator_whose_heads_do_not_divide_its_width_is_refused() -> None:
    learner = model("electra", replaced_token.auto(replaced_token.Params()))  # 32 wide, 2 heads
    for share in (0.01, 0.77):  # no width at all; 25 of 2 heads
        with pytest.raises(UsageError, match=f"generator: {share} of hidden_size 32 is not divisible by [12] heads"):
            replaced_token.around(learner, replaced_token.Params(generator=share))


VARIANTS = ["replaced", "electra_15", "replace_mlm", "all_tokens_mlm"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_discriminator_sees_the_generators_guesses_and_says_where_they_are(
    variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = replaced_token.Params(variant=variant, generator=0.5)
    learner = model("electra", replaced_token.auto(params))
    both = replaced_token.around(learner, params).eval()
    assert both.generator.electra.embeddings is learner.electra.embeddings
    for name in ("hidden_size", "num_attention_heads", "intermediate_size"):
        assert getattr(both.generator.config, name) * 2 == getattr(learner.config, name)
    assert both.generator.config.num_hidden_layers == learner.config.num_hidden_layers
    clean = sentences(rows=30)
    batch = replaced_token.corrupt(clean, np.random.default_rng(1), params, TOKENIZER)
    selected = batch["labels"] != IGNORE
    assert (batch["input_ids"][selected] == TOKENIZER.mask_id).all()
    discriminator_inputs = []
    forward = learner.electra.forward
    monkeypatch.setattr(
        learner.electra, "forward", lambda input_ids: discriminator_inputs.append(input_ids) or forward(input_ids)
    )
    guessed, learned = both(batch)
    (shown,) = discriminator_inputs
    assert shown[~selected].equal(clean["input_ids"][~selected])
    assert guessed.labels.equal(clean["input_ids"][selected])
    replaced = shown != clean["input_ids"]  # where the generator guesses right, nothing is replaced
    assert 0 < int(replaced.sum()) <= int(selected.sum())
    expected = {
        "replaced": replaced.flatten().long(),
        "electra_15": replaced[selected].long(),
        "replace_mlm": clean["input_ids"][selected],
        "all_tokens_mlm": clean["input_ids"].flatten(),
    }[variant]
    assert learned.labels.equal(expected)
    assert learned.logits.shape == (len(expected), 2 if variant in VARIANTS[:2] else TOKENIZER.vocab_size)
    assert learned.weight == (50 if variant in VARIANTS[:2] else 1)


def test_the_binary_loss_is_the_papers_sigmoid() -> None:
    logits, labels = torch.tensor([-2.0, 0.3, 1.7]), torch.tensor([0, 1, 1])
    both = torch.stack([torch.zeros(3), logits], dim=-1)
    ours = torch.nn.functional.cross_entropy(both, labels)
    assert ours.item() == pytest.approx(
        torch.nn.functional.binary_cross_entropy_with_logits(logits, labels.float()).item()
    )


def test_a_copied_token_needs_no_guess() -> None:
    params = replaced_token.Params(variant="all_tokens_mlm")
    both = replaced_token.around(model("electra", replaced_token.auto(params)), params).eval()
    torch.nn.init.zeros_(both.copy.weight)
    torch.nn.init.constant_(both.copy.bias, 20.0)  # always copies
    _, learned = both(replaced_token.corrupt(sentences(5), np.random.default_rng(1), params, TOKENIZER))
    right = learned.logits.argmax(dim=-1) == learned.labels
    assert float(right.float().mean()) > 0.8  # all but the replaced ones
    assert learned.logits.exp().sum(dim=-1).tolist() == pytest.approx([1.0] * len(right), abs=1e-3)
