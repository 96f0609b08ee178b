"""Base classes of the entries of params.yaml. The entries of each section are in pipelines/entries."""

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict

Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]
# the name of an entry or a split, used in paths and commands; no dot, which DVC reads as a step into a mapping
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]*$", max_length=100)]
# words that people write for true and false, and that YAML 1.2 reads as texts
WORDS = {"yes": True, "on": True, "no": False, "off": False}


def _truth(value: object) -> object:
    return WORDS.get(value.lower(), value) if isinstance(value, str) else value


Switch = Annotated[bool, BeforeValidator(_truth)]
Range = Annotated[tuple[Count, Count], Strict(False)]  # minimum and maximum; YAML has lists and no tuples


class Section(BaseModel):
    """One entry; an unknown key is an error."""

    # strict: types are not converted, so `epochs: true` is an error
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    refers: ClassVar[dict[str, tuple[str, ...]]] = {}  # key -> the sections whose entries it may name
    named_after: ClassVar[tuple[str, ...]] = ()  # an entry has the same name as an entry of one of these
    plugins: ClassVar[tuple[str, str]] = ("", "")  # the key that names a plugin, and the package of the plugins

    def shared(self) -> dict[str, Any]:
        """The entry's own keys that a plugin may declare too, with their values."""
        return {}


class PluginSection(Section):
    """An entry whose other keys belong to the plugin that it names; see `params.options`."""

    model_config = ConfigDict(extra="allow")
