"""encoders/: what ships opens with transformers alone, as the cards say, and reads text as we do."""

import pytest
from transformers import AutoModelForMaskedLM, AutoTokenizer

from pipelines.text import tokenizer
from tests.support import tiny
from tests.support.places import ROOT

TEXTS = {
    "ja": "私は[MASK]が好き。",
    "en": "The capital of Japan is [MASK].",
}


@pytest.mark.parametrize("language", TEXTS)
def test_transformers_opens_it(language: str) -> None:
    folder = ROOT / f"encoders/mini-{language}"
    card = " ".join((folder / "README.md").read_text(encoding="utf-8").split())
    assert "its tokenizer as `AutoTokenizer`" in card
    theirs, ours = AutoTokenizer.from_pretrained(folder), tokenizer.load(folder)
    head, tail = TEXTS[language].split("[MASK]")
    before, after = (ours.encode([part]).values.tolist() for part in (head, tail))
    expected = [ours.cls_id, *before, ours.mask_id, *after, ours.sep_id]
    inputs = theirs(TEXTS[language], return_tensors="pt")
    assert inputs["input_ids"][0].tolist() == expected
    assert theirs.mask_token_id == ours.mask_id
    model = AutoModelForMaskedLM.from_pretrained(folder)
    best = model(inputs["input_ids"]).logits[0, expected.index(ours.mask_id)].topk(5).indices
    assert all(ours.tokens([int(i)])[0].isalpha() for i in best)


def test_every_shipped_shape_has_a_small_form() -> None:
    assert {path.stem for path in tiny.SHAPES.glob("*.json")} <= set(tiny.SMALL)
