"""The files that a corpus declares: their addresses, sizes, digests and licences."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pipelines.core.errors import UsageError, choices


@dataclass(frozen=True)
class Source:
    """One file of a corpus: where it is, its size and digest, and under which licence it may be used."""

    name: str  # the file's name below artifacts/raw/<entry>
    url: str = ""  # official address; "" if only a mirror or the user has the file
    path: str = ""  # or its path in this checkout
    mirror: str = ""  # its path below BERTLINE_MIRROR
    members: Mapping[str, str] = field(default_factory=dict)  # files that replace an archive: name -> mirror path
    size_bytes: int | None = None
    sha256: str | None = None  # of the whole file
    sha256_begins: str = ""  # or its first digits, if no more are published
    repacked: bool = False  # a mirror may hold the same content in another archive; the corpus checks the content
    licence: str = ""

    def __post_init__(self) -> None:
        digits = len(self.sha256 or "")
        assert digits in (0, 64), f"{self.name}: its sha256 has {digits} digits, not 64"

    def unchecked(self) -> str:
        """A sentence for a file whose content no declared digest covers completely; "" for any other file."""
        if self.path or self.sha256 or self.repacked:
            return ""
        if digits := len(self.sha256_begins):
            known = f"only the first {digits} digits of its sha256 are declared"
            return f"{self.name}: {known}; these match, the others are not checked"
        return f"{self.name}: no sha256 is declared, so its content is not checked"


def only(sources: list[Source], names: list[str], where: str) -> list[Source]:
    """The sources and members of archives in `names`; all if it is empty. Raises UsageError for an unknown name."""
    if not names:
        return sources
    there_are = {name for source in sources for name in (source.members or [source.name])}
    for name in names:
        if name not in there_are:
            raise UsageError(f"{where}: {choices('file', name, there_are)}")
    members = [{n: m for n, m in source.members.items() if n in names} for source in sources]
    used = [replace(source, members=names_used) for source, names_used in zip(sources, members, strict=True)]
    return [source for source in used if source.members or source.name in names]
