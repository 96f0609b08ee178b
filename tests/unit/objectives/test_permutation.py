"""XLNet's objective against its definition: who may see what."""

import numpy as np
import torch

from pipelines.objectives import permutation
from tests.support.letters import TOKENIZER, model, sentences


def test_a_predicted_token_sees_the_others_before_it_in_its_order_and_never_itself() -> None:
    clean = sentences(rows=2, length=14)
    batch = permutation.corrupt(clean, np.random.default_rng(3), permutation.Params(k=3), TOKENIZER)
    ids, perm_mask = batch["input_ids"], batch["perm_mask"].numpy()
    assert ids[:, -2:].tolist() == [[TOKENIZER.sep_id, TOKENIZER.cls_id]] * 2
    assert batch["target_mapping"].shape == (2, 4, 14)  # a third of the 12 tokens
    places = batch["target_mapping"].argmax(dim=2)
    assert ids.gather(1, places).equal(batch["labels"])
    assert not (places >= 12).any()  # [SEP] and [CLS] are never predicted
    for row in range(2):
        targets = set(places[row].tolist())
        hidden = perm_mask[row]
        # the order of the targets: the number of targets that each may see
        rank = {t: sum(1 - hidden[t, other] for other in targets) for t in targets}
        assert sorted(rank.values()) == [0, 1, 2, 3]
        for i in range(14):
            for j in range(14):
                may_not = j in targets and (i not in targets or rank[j] >= rank[i])
                assert hidden[i, j] == may_not, (i, j)


def test_xlnet_predicts_by_what_it_may_see_alone() -> None:
    xlnet = model("xlnet", permutation.auto(permutation.Params()))
    batch = permutation.corrupt(
        sentences(rows=1, length=14), np.random.default_rng(3), permutation.Params(k=3), TOKENIZER
    )
    places = batch["target_mapping"].argmax(dim=2)[0].tolist()
    hidden = batch["perm_mask"][0]
    (before,) = permutation.predict(xlnet, batch)
    compared = 0
    for j in places:
        changed = batch["input_ids"].clone()
        changed[0, j] = 5 + (changed[0, j] - 4) % 10
        (after,) = permutation.predict(xlnet, {**batch, "input_ids": changed})
        for number, i in enumerate(places):
            same = torch.allclose(before.logits[number], after.logits[number], atol=1e-6)
            assert same == bool(hidden[i, j])
            compared += 1
    assert compared == 16
