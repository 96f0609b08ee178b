"""Base classes of the entries of params.yaml. The entries of each section are in pipelines/entries."""

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    """One entry; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    refers: ClassVar[dict[str, tuple[str, ...]]] = {}  # key -> the sections whose entries it may name
    named_after: ClassVar[tuple[str, ...]] = ()  # an entry has the same name as an entry of one of these


class PluginSection(Section):
    """An entry whose other keys belong to the plugin that it names; see `params.options`."""

    model_config = ConfigDict(extra="allow", frozen=True)
