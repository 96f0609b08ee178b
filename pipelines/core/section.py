"""Base classes of the entries of params.yaml. The entries of each section are in pipelines/entries."""

from typing import Annotated, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict

Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]
# of an entry or a split: it becomes a part of paths and of commands. DVC reads a dot as a step into a mapping
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]*$", max_length=100)]
# YAML 1.2 reads these words as texts, and people write them for true and false
WORDS = {"yes": True, "on": True, "no": False, "off": False}


def _truth(value: object) -> object:
    return WORDS.get(value.lower(), value) if isinstance(value, str) else value


Switch = Annotated[bool, BeforeValidator(_truth)]
Range = Annotated[tuple[Count, Count], Strict(False)]  # least and most; YAML has lists and no tuples


class Section(BaseModel):
    """One entry; an unknown key is an error."""

    # strict: YAML says what a value is, and `epochs: true` is no number
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    refers: ClassVar[dict[str, tuple[str, ...]]] = {}  # key -> the sections whose entries it may name
    named_after: ClassVar[tuple[str, ...]] = ()  # an entry has the same name as an entry of one of these


class PluginSection(Section):
    """An entry whose other keys belong to the plugin that it names; see `params.options`."""

    model_config = ConfigDict(extra="allow")
