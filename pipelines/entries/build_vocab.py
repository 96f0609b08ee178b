"""build_vocab: the rows from which a vocabulary is learned, its tokenizer and its size."""

from typing import Annotated, ClassVar

from pydantic import Field

from pipelines.core.section import Name, PluginSection


class BuildVocab(PluginSection):
    refers: ClassVar = {"rows": ("prepare",)}
    plugins: ClassVar = ("tokenizer", "pipelines.text.tokenizers")

    rows: Name
    tokenizer: str
    size: Annotated[int, Field(ge=16)]
