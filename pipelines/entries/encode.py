"""encode: which rows become token ids, and with which tokenizer."""

from typing import Annotated, ClassVar

from pydantic import Field

from pipelines.core.section import Count, Section


class Encode(Section):
    refers: ClassVar = {"task": ("prepare",)}

    task: str
    vocab: str  # a folder with tokenizer files: artifacts/vocab/NAME, or any model folder
    max_length: Annotated[int, Field(ge=4)]
    stride: Count = 128  # kind span: tokens of the context from the start of one window to the start of the next
