"""English offsets are the library's own."""

from pathlib import Path

import numpy as np

from pipelines.text import tokenizer
from tests.support import tiny


def test_english_offsets_are_the_librarys_own(tmp_path: Path) -> None:
    loaded = tokenizer.load(tiny.tokenizer(tmp_path, japanese=False))
    text = "Ünï  café, OK?"
    spans = loaded.encode_spans([text, "a"])
    parts = [text[s:e] for s, e in zip(spans.starts, spans.ends, strict=True)][: spans.ids.lengths[0]]
    assert "".join(parts) == text.replace(" ", "")
    assert np.array_equal(spans.ids.values, loaded.encode([text, "a"]).values)
