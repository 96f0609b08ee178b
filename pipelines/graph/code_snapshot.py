"""The code and the params at the start of a run, for each stage."""

from collections.abc import Iterable
from pathlib import Path

from pipelines.core import params, resources
from pipelines.core.errors import InputError
from pipelines.graph import code_manifest, import_closure

# libraries that start threads on import; a forked child does not have these threads, and waits for them when it exits
NEVER_AHEAD = {"onnxruntime"}


def ahead(files: Iterable[str], root: Path) -> tuple[str, ...]:
    """The modules that a process may import before it forks children to run these files."""
    every = import_closure.modules(files, root)
    return tuple(module for module in every if module.partition(":")[0].partition(".")[0] not in NEVER_AHEAD)


class CodeSnapshot:
    """The code at the start of a run. A stage does not start if the code that it imports was edited since."""

    def __init__(self) -> None:
        self.root, self.values = import_closure.here(), params.read()
        self.closures = code_manifest.stages(self.root, graph=Path(code_manifest.FILE))
        self.found: dict[str, set[str]] = {}
        self.seen: dict[str, str] = {}  # the digest of each file

    def files(self, name: str) -> set[str]:
        """The files that a stage imports; empty for a command that is not a stage of the project."""
        if name not in self.found:
            section, _, key = name.partition("@")
            entry = (self.values.get(section) or {}).get(key) or {}
            code = self.closures.get(section)
            self.found[name] = (
                code_manifest.runs(code, entry, self.root, f"{params.FILE}: {name.replace('@', '.')}")
                if code
                else set()
            )
            self.seen |= {file: _digest(self.root / file) for file in self.found[name] if file not in self.seen}
        return self.found[name]

    def resources(self, name: str) -> resources.Resources:
        """The stage's resources, as params.yaml sets them."""
        section, _, key = name.partition("@")
        return resources.within(self.values, section, key)

    def modules(self, name: str) -> tuple[str, ...]:
        """The modules that the stage imports and that may be imported before a fork."""
        return ahead(sorted(self.files(name)), self.root)

    def check(self, name: str) -> None:
        """Raise InputError if a file that the stage imports was edited since the run began."""
        for file in sorted(self.files(name)):
            if _digest(self.root / file) != self.seen[file]:
                raise InputError(f"{file} was edited while the graph ran; run again, with the code as it is now")


def _digest(file: Path) -> str:
    try:
        return code_manifest.digest(file)
    except FileNotFoundError:
        return ""
