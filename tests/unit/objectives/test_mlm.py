"""Masked tokens against their definition: which are selected, and what is seen in their place."""

import numpy as np
import pytest
from pydantic import ValidationError

from pipelines.models.batch import IGNORE
from pipelines.objectives import mlm
from tests.support.letters import PIECES, TOKENIZER, sentences


def test_15_of_100_tokens_are_selected_of_which_80_are_masked_10_random_and_10_as_they_were() -> None:
    clean = sentences()
    batch = mlm.corrupt(clean, np.random.default_rng(1), mlm.Params(), TOKENIZER)
    ids, shown, labels = (t.numpy() for t in (clean["input_ids"], batch["input_ids"], batch["labels"]))
    selected = labels != IGNORE
    assert (labels[selected] == ids[selected]).all()
    assert (shown[~selected] == ids[~selected]).all()
    assert not selected[:, [0, -1]].any()
    assert selected[:, 1:-1].mean() == pytest.approx(0.15, abs=0.01)
    masked = shown[selected] == TOKENIZER.mask_id
    assert masked.mean() == pytest.approx(0.8, abs=0.03)
    # one random token in 25 is the one that stood there
    assert (shown[selected] == ids[selected]).mean() == pytest.approx(0.1 + 0.1 / 25, abs=0.02)


@pytest.mark.parametrize(("select", "mask", "random"), [(0.15, 1.0, 0.0), (0.4, 0.0, 1.0), (0.15, 0.0, 0.0)])
def test_the_shares_are_params(select: float, mask: float, random: float) -> None:
    params = mlm.Params(select=select, mask=mask, random=random)
    clean = sentences()
    batch = mlm.corrupt(clean, np.random.default_rng(1), params, TOKENIZER)
    selected = batch["labels"] != IGNORE
    assert float(selected[:, 1:-1].float().mean()) == pytest.approx(select, abs=0.02)
    shown = batch["input_ids"][selected]
    assert float((shown == TOKENIZER.mask_id).float().mean()) == pytest.approx(mask + random / 25, abs=0.02)
    assert float((shown != clean["input_ids"][selected]).float().mean()) == pytest.approx(
        mask + random * 24 / 25, abs=0.03
    )


def test_whole_words_are_masked_or_shown_together() -> None:
    clean = sentences()
    batch = mlm.corrupt(clean, np.random.default_rng(1), mlm.Params(whole_word=True), TOKENIZER)
    ids, selected = clean["input_ids"].numpy(), (batch["labels"] != IGNORE).numpy()
    goes_on = ids >= PIECES.index("##k")
    inside = goes_on[:, 2:-1]  # a piece right behind [CLS] begins a word of its own
    assert inside.sum() > 1000
    assert (selected[:, 2:-1][inside] == selected[:, 1:-2][inside]).all()
    assert selected[:, 1:-1].mean() == pytest.approx(0.15, abs=0.02)
    singly = mlm.corrupt(clean, np.random.default_rng(1), mlm.Params(), TOKENIZER)["labels"].numpy() != IGNORE
    assert (singly[:, 2:-1][inside] != singly[:, 1:-2][inside]).any()


@pytest.mark.parametrize(("params", "most"), [(mlm.Params(masks=2), 2), (mlm.Params(), 30)])
def test_a_sequence_has_as_many_masks_as_asked_for_or_a_new_one_every_time(params: mlm.Params, most: int) -> None:
    clean, masked = sentences(rows=20), [set() for _ in range(20)]
    for step in range(30):
        order = np.random.default_rng(step).permutation(20)
        shuffled = {"input_ids": clean["input_ids"][order]}
        batch = mlm.corrupt(shuffled, np.random.default_rng(100 + step), params, TOKENIZER)
        for row, shown in zip(order, batch["input_ids"].numpy(), strict=True):
            masked[row].add(shown.tobytes())
    assert [len(masks) for masks in masked] == [most] * 20


def test_more_than_all_selected_tokens_cannot_be_masked() -> None:
    with pytest.raises(ValidationError, match=r"mask 0\.8 and random 0\.3 add up to more than all selected tokens"):
        mlm.Params(random=0.3)
    assert mlm.Params(mask=0.7, random=0.3)
