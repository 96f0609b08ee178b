"""The code and the params that a run began with, stage by stage."""

from collections.abc import Iterable
from pathlib import Path

from pipelines.core import params, resources
from pipelines.core.errors import InputError
from pipelines.graph import closure, dependencies

# libraries that start threads of their own when imported; a forked child lacks these, and waits for them at its end
NEVER_AHEAD = {"onnxruntime"}


def ahead(files: Iterable[str], root: Path) -> tuple[str, ...]:
    """What a process that forks may import for children that run these files."""
    every = closure.modules(files, root)
    return tuple(module for module in every if module.partition(":")[0].partition(".")[0] not in NEVER_AHEAD)


class Code:
    """The code that a run began with. A stage is not started if a file that it imports was edited since."""

    def __init__(self) -> None:
        self.closures, self.values = dependencies.stages(Path()), params.read()
        self.found: dict[str, set[str]] = {}
        self.seen: dict[str, tuple[int, int]] = {}

    def files(self, name: str) -> set[str]:
        """The files that a stage imports; none for a command that is no stage of the project."""
        if name not in self.found:
            section, _, key = name.partition("@")
            entry = (self.values.get(section) or {}).get(key) or {}
            stage = self.closures.get(section)
            self.found[name] = (
                dependencies.runs(stage, entry, Path(), f"{params.FILE}: {name.replace('@', '.')}") if stage else set()
            )
            self.seen |= {file: _mark(file) for file in self.found[name] if file not in self.seen}
        return self.found[name]

    def resources(self, name: str) -> resources.Resources:
        """What params.yaml says of the stage's resources."""
        section, _, key = name.partition("@")
        return resources.within(self.values, section, key)

    def modules(self, name: str) -> tuple[str, ...]:
        """What the stage imports, and may be imported before a fork."""
        return ahead(sorted(self.files(name)), Path())

    def check(self, name: str) -> None:
        """Raises InputError if a file that the stage imports is not what it was."""
        for file in sorted(self.files(name)):
            if _mark(file) != self.seen[file]:
                raise InputError(f"{file} was edited while the graph ran; run again, with the code as it is now")


def _mark(file: str) -> tuple[int, int]:
    try:
        about = Path(file).stat()
    except FileNotFoundError:
        return 0, 0
    return about.st_mtime_ns, about.st_size
