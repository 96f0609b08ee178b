"""What is no tokenizer, or none that is known, is said in one sentence."""

from pathlib import Path

import pytest

from pipelines.core.errors import InputError
from pipelines.text import tokenizer


def test_folders_without_a_tokenizer_or_with_a_foreign_one_fail_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no tokenizer_config.json"):
        tokenizer.load(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "T5Tokenizer"}')
    with pytest.raises(InputError, match=r"no tokenizer_class 'T5Tokenizer' .*there are: AlbertTokenizer"):
        tokenizer.load(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n")
    with pytest.raises(InputError, match=r"no \[MASK\] in it"):
        tokenizer.load(tmp_path)
