"""English offsets are the library's own."""

from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, processors

from pipelines.text import backend, tokenizer
from tests.support import tiny


def test_english_offsets_are_the_librarys_own(tmp_path: Path) -> None:
    loaded = tokenizer.load(tiny.tokenizer(tmp_path, japanese=False))
    text = "Ünï  café, OK?"
    spans = loaded.encode_spans([text, "a"])
    parts = [text[s:e] for s, e in zip(spans.starts, spans.ends, strict=True)][: spans.ids.lengths[0]]
    assert "".join(parts) == text.replace(" ", "")
    assert np.array_equal(spans.ids.values, loaded.encode([text, "a"]).values)


@pytest.mark.parametrize("published", [False, True])
def test_special_tokens_for_transformers_change_no_id_and_no_offset(published: bool, tmp_path: Path) -> None:
    """RoBERTa's post-processor takes white space from the characters of a token."""
    tiny.tokenizer(tmp_path, name="bpe")
    if published:
        pipeline = Tokenizer.from_file(str(tmp_path / backend.FILE))
        pipeline.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
        pipeline.save(str(tmp_path / backend.FILE))
    text, loaded = "a  cat's café 私は 犬", tokenizer.load(tmp_path)
    before = loaded.encode_spans([text])
    backend.write_special_tokens(tmp_path, loaded)
    backend.write_special_tokens(tmp_path, tokenizer.load(tmp_path))
    after = tokenizer.load(tmp_path).encode_spans([text])
    assert before.ids.values.tolist() == after.ids.values.tolist()
    assert before.starts.tolist() == after.starts.tolist()
    assert before.ends.tolist() == after.ends.tolist()
    pair = Tokenizer.from_file(str(tmp_path / backend.FILE)).encode("a", "cat")
    assert pair.tokens[:4] == ["<s>", "a", "</s>", "</s>"]
    assert pair.type_ids == [0, 0, 0, *[1] * (len(pair.ids) - 3)]
