"""Each objective against its paper's definition: what is hidden, what is predicted, who may see what."""

from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from pipelines.core.errors import UsageError
from pipelines.models import masking, pretrained, segments
from pipelines.models.batch import IGNORE
from pipelines.objectives import bilm, mlm, nsp, permutation, replaced_token, sop
from tests import tiny

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij", *(f"##{c}" for c in "klmnopqrst")]


class Tokenizer:
    """By default five special tokens, ten words, ten pieces that go on with a word."""

    pad_id, unk_id, cls_id, sep_id, mask_id = range(5)

    def __init__(self, pieces: list[str] = PIECES) -> None:
        self.pieces, self.vocab_size = pieces, len(pieces)

    def tokens(self, ids: Any) -> list[str]:
        return [self.pieces[i] for i in ids]


TOKENIZER = Tokenizer()


def sentences(rows: int = 200, length: int = 64) -> dict[str, torch.Tensor]:
    ids = np.random.default_rng(0).integers(5, TOKENIZER.vocab_size, (rows, length))
    ids[:, 0], ids[:, -1] = TOKENIZER.cls_id, TOKENIZER.sep_id
    return {"input_ids": torch.from_numpy(ids)}


def model(family: str, auto: Any) -> torch.nn.Module:
    return pretrained.start(tiny.SHAPES / f"{family}.json", tiny.SMALL[family], auto, TOKENIZER, seed=1).eval()


def test_15_of_100_tokens_are_selected_of_which_80_are_hidden_10_random_and_10_as_they_were() -> None:
    clean = sentences()
    batch = mlm.corrupt(clean, np.random.default_rng(1), mlm.Params(), TOKENIZER)
    ids, shown, labels = (t.numpy() for t in (clean["input_ids"], batch["input_ids"], batch["labels"]))
    selected = labels != IGNORE
    assert (labels[selected] == ids[selected]).all()
    assert (shown[~selected] == ids[~selected]).all()
    assert not selected[:, [0, -1]].any()
    assert selected[:, 1:-1].mean() == pytest.approx(0.15, abs=0.01)
    hidden = shown[selected] == TOKENIZER.mask_id
    assert hidden.mean() == pytest.approx(0.8, abs=0.03)
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


def test_whole_words_are_hidden_or_shown_together() -> None:
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


def test_other_vocabularies_mark_where_a_word_begins() -> None:
    for mark in "Ġ▁":
        assert masking.word_starts(Tokenizer(["<s>", f"{mark}the", f"{mark}be", "ing"])).tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize(("params", "most"), [(mlm.Params(masks=2), 2), (mlm.Params(), 30)])
def test_a_sequence_has_as_many_masks_as_asked_for_or_a_new_one_every_time(params: mlm.Params, most: int) -> None:
    clean, seen = sentences(rows=20), [set() for _ in range(20)]
    for step in range(30):
        order = np.random.default_rng(step).permutation(20)
        shuffled = {"input_ids": clean["input_ids"][order]}
        batch = mlm.corrupt(shuffled, np.random.default_rng(100 + step), params, TOKENIZER)
        for row, shown in zip(order, batch["input_ids"].numpy(), strict=True):
            seen[row].add(shown.tobytes())
    assert [len(masks) for masks in seen] == [most] * 20


def test_more_than_all_selected_words_cannot_be_hidden() -> None:
    with pytest.raises(ValidationError, match=r"mask 0\.8 and random 0\.3 are more than all of the selected tokens"):
        mlm.Params(random=0.3)
    assert mlm.Params(mask=0.7, random=0.3)


def documents(rows: int = 400) -> dict[str, torch.Tensor]:
    """Two segments a row; document d is made of letters that no other has, so that every segment tells its own."""
    rng = np.random.default_rng(2)
    number = rng.integers(0, 5, rows)
    sizes = rng.integers(2, 9, (rows, 2))
    first = [np.full(a, 5 + 2 * d) for d, (a, _) in zip(number, sizes, strict=True)]
    second = [np.full(b, 6 + 2 * d) for d, (_, b) in zip(number, sizes, strict=True)]
    return segments.join(first, second, TOKENIZER) | {"document": torch.from_numpy(number)}


def test_segments_are_joined_as_bert_reads_them_and_taken_apart_again() -> None:
    batch = segments.join([np.array([7, 8]), np.array([9])], [np.array([10]), np.array([11])], TOKENIZER)
    assert batch["input_ids"].tolist() == [[2, 7, 8, 3, 10, 3], [2, 9, 3, 11, 3, 0]]
    assert batch["token_type_ids"].tolist() == [[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0]]
    assert batch["attention_mask"].tolist() == [[1] * 6, [1] * 5 + [0]]
    first, second = segments.split(batch)
    assert [part.tolist() for part in (*first, *second)] == [[7, 8], [9], [10], [11]]


def test_half_of_the_next_segments_are_of_another_document() -> None:
    clean = documents()
    params = nsp.Params(select=0.0)
    batch = nsp.corrupt(clean, np.random.default_rng(1), params, TOKENIZER)
    first, second = segments.split(batch)
    own = clean["document"].numpy()
    order = batch["order"].numpy()
    assert order.mean() == pytest.approx(0.5, abs=0.06)
    assert len(first) == 400
    for row in range(400):
        assert set(first[row].tolist()) == {5 + 2 * own[row]}
        (letter,) = set(second[row].tolist())
        assert (letter == 6 + 2 * own[row]) == (order[row] == nsp.NEXT)
    alone = {**clean, "document": torch.zeros(400, dtype=torch.int64)}
    assert not nsp.corrupt(alone, np.random.default_rng(1), params, TOKENIZER)["order"].any()


def test_half_of_the_segments_change_places() -> None:
    clean = documents()
    batch = sop.corrupt(clean, np.random.default_rng(1), sop.Params(select=0.0), TOKENIZER)
    order = batch["order"].numpy()
    assert order.mean() == pytest.approx(0.5, abs=0.06)
    before, after = segments.split(clean), segments.split(batch)
    for row in range(400):
        a, b = (1, 0) if order[row] == sop.SWAPPED else (0, 1)
        assert after[0][row].tolist() == before[a][row].tolist()
        assert after[1][row].tolist() == before[b][row].tolist()


def test_a_generator_whose_heads_do_not_divide_its_width_is_refused() -> None:
    learner = model("electra", replaced_token.auto(replaced_token.Params()))  # 32 wide, 2 heads
    for share in (0.01, 0.77):  # no width at all; 25 of 2 heads
        with pytest.raises(UsageError, match=f"generator: {share} of a width of 32 does not divide by [12] heads"):
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
    seen = []
    forward = learner.electra.forward
    monkeypatch.setattr(learner.electra, "forward", lambda input_ids: seen.append(input_ids) or forward(input_ids))
    guessed, learned = both(batch)
    (shown,) = seen
    assert shown[~selected].equal(clean["input_ids"][~selected])
    assert guessed.labels.equal(clean["input_ids"][selected])
    replaced = shown != clean["input_ids"]  # where the generator guesses right, nothing is replaced
    assert 0 < int(replaced.sum()) <= int(selected.sum())
    wanted = {
        "replaced": replaced.flatten().long(),
        "electra_15": replaced[selected].long(),
        "replace_mlm": clean["input_ids"][selected],
        "all_tokens_mlm": clean["input_ids"].flatten(),
    }[variant]
    assert learned.labels.equal(wanted)
    assert learned.logits.shape == (len(wanted), 2 if variant in VARIANTS[:2] else TOKENIZER.vocab_size)
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
    wanted = two(input_ids=ids).last_hidden_state
    assert torch.allclose(two(**padded).last_hidden_state[:, :5], wanted, atol=1e-6)


def test_shapes_stay_whole() -> None:
    assert {path.stem for path in tiny.SHAPES.glob("*.json")} <= set(tiny.SMALL)
