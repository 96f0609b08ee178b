"""hf: any tokenizer.json, as it is; nothing is learned here."""

from collections.abc import Callable, Iterator
from pathlib import Path

from pipelines.core.entries import Section
from pipelines.core.errors import UsageError
from pipelines.text import backend

NAME = "hf"


class Params(Section):
    """Nothing to choose."""


def train(texts: Callable[[], Iterator[str]], folder: Path, size: int, params: Params) -> None:
    raise UsageError("build_vocab: hf reads a tokenizer that is there; name its folder in encode.vocab")


def load(folder: Path) -> backend.BackendTokenizer:
    """The tokenizer of a folder with a tokenizer.json."""
    return backend.read(NAME, folder)
