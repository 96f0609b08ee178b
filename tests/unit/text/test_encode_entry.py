"""`encode` tells of texts that the vocabulary cannot write, and leaves the same files as without that line."""

from pathlib import Path

import pytest

from pipelines.core import schema, tables
from pipelines.entries.encode import Encode
from pipelines.text import encode_entry
from tests.support import tiny
from tests.support.places import ROOT

THAI = ["สวัสดีครับ", "ขอบคุณมาก", "ราคาเท่าไร"]
ENGLISH = ["where is my order", "the bill is wrong", "it does not start"]


@pytest.mark.parametrize(("texts", "share"), [(THAI, "100%"), (ENGLISH * 2 + THAI[:1], ""), (ENGLISH + THAI, "20%")])
def test_pieces_without_a_token_are_told(
    texts: list[str], share: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    rows, out = tmp_path / "rows", tmp_path / "encoded"
    for folder in (rows, out):
        folder.mkdir()
    tiny.TASK.with_(splits=("test",)).save(rows)
    columns = schema.ROWS["single"]
    records = [{"id": str(i), "text": text, "label": tiny.LABELS[i % 3]} for i, text in enumerate(texts)]
    tables.write(rows / "test.parquet", tables.batches(records, columns), columns)
    vocab = str(ROOT / "encoders/mini-en")
    encode_entry.encode("th", Encode(task="th", vocab=vocab, max_length=32), out, 1, rows)
    lines = [line for line in capsys.readouterr().err.splitlines() if "no token" in line]
    assert len(lines) == bool(share)
    for line in lines:
        assert f"encode th: test: {vocab} has no token for {share}" in line
        assert line.endswith("of the pieces; take an encoder of this language")
    assert "unknown" not in (out / encode_entry.FACTS).read_text()
