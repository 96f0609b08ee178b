"""encode: which rows become token ids, and with which tokenizer."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from pipelines.core.section import Count, Name, Section


class Encode(Section):
    refers: ClassVar = {"task": ("prepare",)}

    task: Name
    vocab: str  # a folder with tokenizer files: artifacts/vocab/NAME, or any model folder
    max_length: Annotated[int, Field(ge=5)]  # tokens of a sequence, the special ones included
    stride: Count = 128  # kind span: tokens of the context from the start of one window to the start of the next
    max_question: Count = 64  # kind span: tokens of a question; the rest is cut off
    # what "[SEP]" in a text is: text, since a text must not steer a model; special for corpora of published models
    # that write it so, such as JSQuAD
    special_tokens: Literal["text", "special"] = "text"
