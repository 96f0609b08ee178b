"""Another vocabulary under a model: what both know stays, what is new begins as the mean of its pieces."""

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoModelForPreTraining

from pipelines.checkpoints import pretrained, vocabulary
from pipelines.core import plugins
from pipelines.core.errors import InputError
from pipelines.text import tokenizer as text_tokenizer
from tests.support import tiny

OTHER = [*tiny.TEXTS, *["猫カフェの予約開始、猫カフェの公開日"] * 8]
FAMILIES = {
    "bert": "mecab_wordpiece",
    "electra": "mecab_wordpiece",
    "modernbert": "mecab_wordpiece",
    "roberta": "bpe",
    "albert": "unigram",
    "bilstm": "mecab_wordpiece",
    "mobilebert": "mecab_wordpiece",
}


def vocab(kind: str, texts: list[str], folder: Path) -> text_tokenizer.Tokenizer:
    folder.mkdir(parents=True, exist_ok=True)
    plugin = plugins.load("pipelines.text.tokenizers", kind)
    plugin.train(lambda: iter(texts), folder, 300, plugin.Params())
    return text_tokenizer.load(folder)


@pytest.mark.parametrize("family", FAMILIES)
def test_shared_entries_stay_and_new_ones_are_means(family: str, tmp_path: Path) -> None:
    kind = FAMILIES[family]
    old, new = vocab(kind, tiny.TEXTS, tmp_path / "old"), vocab(kind, OTHER, tmp_path / "new")
    auto = AutoModelForPreTraining if family == "bilstm" else AutoModelForMaskedLM
    shape = tiny.shape(family, tmp_path)
    model = pretrained.start(shape, tiny.SMALL[family], auto, old, 1)
    model.save_pretrained(tmp_path / "old")
    before = model.get_input_embeddings().weight.detach().clone()

    changed = pretrained.start(tmp_path / "old", {}, auto, new, 1)
    after = changed.get_input_embeddings().weight.detach()
    assert len(after) == new.vocab_size == changed.config.vocab_size
    names = {piece: i for i, piece in enumerate(old.tokens(range(old.vocab_size)))}
    pieces = new.tokens(range(new.vocab_size))
    assert set(pieces) - set(names), "the new vocabulary has nothing of its own"
    for i, piece in enumerate(pieces):
        if piece in names:
            assert torch.equal(after[i], before[names[piece]])
    texts = vocabulary._texts(new)
    cat = next(i for i, piece in enumerate(pieces) if piece not in names and "猫" in texts[i])
    cut = old.encode([texts[cat]]).values.astype(int)
    assert torch.allclose(after[cat], before[cut].mean(dim=0), atol=1e-6)

    changed.save_pretrained(tmp_path / "new")
    opened = pretrained.start(tmp_path / "new", {}, auto, new, 1)
    assert torch.equal(opened.get_input_embeddings().weight, after)


@pytest.mark.parametrize("family", ["bert", "mobilebert"])
def test_a_text_of_shared_pieces_reads_as_before(family: str, tmp_path: Path) -> None:
    old, new = (vocab("mecab_wordpiece", texts, tmp_path / name) for name, texts in (("a", tiny.TEXTS), ("b", OTHER)))
    shape = tiny.shape(family, tmp_path)
    model = pretrained.start(shape, tiny.SMALL[family], AutoModelForMaskedLM, old, 1).eval()
    logits = model(input_ids=ids(old)).logits[0]
    vocabulary.exchange(model, old, new)
    again = model(input_ids=ids(new)).logits[0]
    places = {piece: i for i, piece in enumerate(new.tokens(range(new.vocab_size)))}
    shared = [(i, places[piece]) for i, piece in enumerate(old.tokens(range(old.vocab_size))) if piece in places]
    assert len(shared) > 50
    before, after = map(list, zip(*shared, strict=True))
    assert torch.allclose(logits[:, before], again[:, after], atol=1e-5)
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_another_id_of_the_padding_is_the_same_model(family: str, tmp_path: Path) -> None:
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdef"]
    old, new = (words(order, tmp_path / order[0]) for order in ([names[1], names[0], *names[2:]], names))
    assert (old.pad_id, new.pad_id) == (1, 0)
    model = pretrained.start(tiny.shape(family, tmp_path), tiny.SMALL[family], AutoModelForMaskedLM, old, 1).eval()
    model.save_pretrained(tmp_path / "[UNK]")
    changed = pretrained.start(tmp_path / "[UNK]", {}, AutoModelForMaskedLM, new, 1).eval()
    changed.save_pretrained(tmp_path / "changed")
    opened = AutoModelForMaskedLM.from_pretrained(tmp_path / "changed")
    row = torch.tensor([[2, 5, 7, 3, 0, 0]])
    mask = (row != 0).long()
    with torch.inference_mode():
        before = model(input_ids=torch.where(row == 0, 1, row), attention_mask=mask).logits[:, :4, 2:]
        after, again = (m(input_ids=row, attention_mask=mask).logits[:, :4, 2:] for m in (changed, opened))
    assert torch.allclose(after, before, atol=1e-6)
    assert torch.equal(again, after)
    assert changed.get_input_embeddings().padding_idx == changed.config.pad_token_id == 0


def words(names: list[str], folder: Path) -> text_tokenizer.Tokenizer:
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(names))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
    return text_tokenizer.load(folder)


def ids(tokenizer: text_tokenizer.Tokenizer) -> torch.Tensor:
    return torch.from_numpy(tokenizer.encode(["私は犬が好き。"]).values.astype(int))[None]


def test_the_same_vocabulary_changes_nothing(tmp_path: Path) -> None:
    old, again = (vocab("mecab_wordpiece", tiny.TEXTS, tmp_path / name) for name in "ab")
    assert vocabulary.same(old, again)
    assert not vocabulary.same(old, vocab("mecab_wordpiece", OTHER, tmp_path / "c"))


def test_another_kind_of_tokenizer_is_refused(tmp_path: Path) -> None:
    tiny.encoder(tmp_path / "old")
    other = vocab("unigram", OTHER, tmp_path / "new")
    with pytest.raises(InputError, match="the encoder's tokenizer is mecab_wordpiece, the encoded text's unigram"):
        pretrained.start(tmp_path / "old", {}, AutoModelForMaskedLM, other, 1)
