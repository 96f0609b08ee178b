"""Masked words are guessed as transformers' own pipeline guesses them."""

from pathlib import Path

import pyarrow as pa
import pytest
from transformers import AutoModelForMaskedLM, AutoTokenizer, FillMaskPipeline

from pipelines.checkpoints import pretrained
from pipelines.core import plugins
from pipelines.core.errors import InputError, UsageError
from pipelines.inference.fill_mask import MaskFiller, fill
from pipelines.text import tokenizer as text_tokenizer
from tests.support import tiny


@pytest.mark.parametrize(("japanese", "text"), [(True, "私は[MASK]が好き。"), (False, "ab [MASK] cd [MASK]")])
def test_guesses_are_those_of_transformers(japanese: bool, text: str, tmp_path: Path) -> None:
    folder = tiny.encoder(tmp_path / "encoder", japanese=japanese)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    peer = FillMaskPipeline(AutoModelForMaskedLM.from_pretrained(folder), tokenizer, top_k=4)
    expected = peer(text)
    expected = expected if isinstance(expected[0], list) else [expected]
    answers = fill(folder, text, 4)
    assert len(answers) == text.count("[MASK]")
    for guesses, row in zip(answers, expected, strict=True):
        assert [g.piece for g in guesses] == [tokenizer.convert_ids_to_tokens(w["token"]) for w in row]
        assert [g.probability for g in guesses] == pytest.approx([w["score"] for w in row], abs=1e-5)


def test_what_cannot_be_guessed_is_one_sentence(tmp_path: Path) -> None:
    folder = tiny.encoder(tmp_path / "encoder")
    with pytest.raises(UsageError, match=r"the text has no \[MASK\]"):
        fill(folder, "私は犬が好き。", 3)
    with pytest.raises(InputError, match=r"the text has \d+ tokens; the encoder takes 64"):
        fill(folder, "私は[MASK]が好き。" * 30, 3)
    with pytest.raises(InputError, match=r"text: row 1 has \d+ tokens; the encoder takes 64"):
        MaskFiller.load(folder).predict(pa.table({"text": ["[MASK]", "私は[MASK]が好き。" * 30]}))
    for family in ("bilstm", "xlnet"):
        with pytest.raises(InputError, match="has no masked-token head"):
            fill(tiny.of_family(family, tmp_path / family), "[MASK]", 3)
    for head in ("native", "linear"):
        tuned = tiny.classifier(tmp_path / head, head=head)
        with pytest.raises(InputError, match="has no masked-token head"):
            fill(tuned, "[MASK]", 3)
    with pytest.raises(InputError, match="nowhere: no such model folder"):
        fill(tmp_path / "nowhere", "[MASK]", 3)


def test_a_byte_level_guess_is_text(tmp_path: Path) -> None:
    """Each piece is the text of transformers' own pipeline."""
    plugin = plugins.load("pipelines.text.tokenizers", "bpe")
    plugin.train(lambda: iter(["映画が好き。犬が好き。 café é"] * 20), tmp_path, 400, plugin.Params())
    loaded = text_tokenizer.load(tmp_path)
    small = tiny.SMALL["roberta"] | {"initializer_range": 0.3}
    model = pretrained.start(tiny.shape("roberta", tmp_path), small, AutoModelForMaskedLM, loaded, seed=1)
    model.save_pretrained(tmp_path)
    peer = FillMaskPipeline(model.eval(), AutoTokenizer.from_pretrained(tmp_path), top_k=loaded.vocab_size)
    (guesses,) = fill(tmp_path, "犬が[MASK]。", loaded.vocab_size)
    assert [guess.piece for guess in guesses] == [row["token_str"] for row in peer("犬が<mask>。")]
    assert any("好" in guess.piece for guess in guesses)
