"""hf: any existing tokenizer.json; it cannot learn a vocabulary."""

from collections.abc import Callable, Iterator
from pathlib import Path

from pipelines.core.errors import UsageError
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.section import Section
from pipelines.text import backend

NAME = "hf"


class Params(Section):
    """Nothing to choose."""


def train(texts: Callable[[], Iterator[str]], folder: Path, size: int, params: Params) -> None:
    raise UsageError("build_vocab: hf reads an existing tokenizer; name its folder in encode.vocab")


def load(folder: OpenedFolder) -> backend.BackendTokenizer:
    """The tokenizer of a folder with a tokenizer.json."""
    return backend.read(NAME, folder)
