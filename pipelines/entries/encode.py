"""encode: the rows to turn into token ids, and the tokenizer."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from pipelines.core.section import Count, Name, Section


class Encode(Section):
    refers: ClassVar = {"task": ("prepare",)}

    task: Name
    vocab: str  # a folder with tokenizer files: artifacts/vocab/NAME, or any model folder
    max_length: Annotated[int, Field(ge=5)]  # tokens of a sequence, the special ones included
    stride: Count = 128  # kind span: tokens of the context from the start of one window to the start of the next
    max_question: Count = 64  # kind span: maximum tokens of a question; the rest is cut off
    # how "[SEP]" in a text is read: as plain text, so that a text cannot control a model, or as the special token,
    # for corpora such as JSQuAD, in which published models expect it
    special_tokens: Literal["text", "special"] = "text"
