"""Tokenizers of both languages, learned from a few texts."""

import pytest

from pipelines.text import tokenizer
from tests.support import tiny


@pytest.fixture(scope="session")
def japanese(tmp_path_factory: pytest.TempPathFactory) -> tokenizer.Tokenizer:
    return tokenizer.load(tiny.tokenizer(tmp_path_factory.mktemp("ja")))


@pytest.fixture(scope="session")
def english(tmp_path_factory: pytest.TempPathFactory) -> tokenizer.Tokenizer:
    return tokenizer.load(tiny.tokenizer(tmp_path_factory.mktemp("en"), japanese=False))
