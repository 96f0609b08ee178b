"""The sources of served models: `NAME@ALIAS` or `NAME@NUMBER` in the registry, or `NAME=FOLDER` on this machine."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from pipelines.core.errors import InputError, UsageError
from pipelines.tracking import registry

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


class Source(NamedTuple):
    """A model to serve: `NAME`, `NAME@ALIAS` or `NAME@NUMBER` in the registry, or `NAME=FOLDER` on this machine."""

    model: str  # the registered name; of a folder, the name in the service
    alias: str = registry.CHAMPION
    runtime: str = ""
    folder: Path | None = None

    @classmethod
    def parse(cls, text: str, runtime: str = "") -> "Source":
        name, _, folder = text.partition("=")
        if folder:
            if not NAME.fullmatch(name):
                raise UsageError(f"{text}: a name has letters, digits, _, - and . only")
            return cls(name, runtime=runtime, folder=Path(folder))
        name, _, alias = text.partition("@")
        return cls(name, alias or registry.CHAMPION, runtime)

    def __str__(self) -> str:
        """The text that `parse` reads."""
        return f"{self.model}={self.folder.resolve()}" if self.folder else f"{self.model}@{self.alias}"

    def version(self) -> registry.Version:
        """The version that is to be served now, 0 for a folder. Raises InputError if there is none."""
        if self.folder:
            if not self.folder.is_dir():
                raise InputError(f"{self.folder}: no such folder")
            return registry.Version(self.model, 0, {})
        return registry.labelled(self.model, self.alias)


def sources(texts: Iterable[str], runtime: str = "") -> dict[str, Source]:
    """The sources by their names in the service: a folder's NAME, or the whole text. Raises UsageError for a repeat."""
    by_name: dict[str, Source] = {}
    for text in texts:
        source = Source.parse(text, runtime)
        name = source.model if source.folder else text
        if by_name.setdefault(name, source) != source:
            raise UsageError(f"{text}: another model has the name {name}")
    return by_name
