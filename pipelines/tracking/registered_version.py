"""A version of a registered model, and the folder of it that a runtime opens; each version brings this file along."""

from dataclasses import dataclass, field

from pipelines.core.errors import InputError, choices

RUNTIME = "runtime"  # the tag with the runtime that serves the version
# runtime -> the artifact that it opens; by default the first that the version has
FOLDERS = {"onnx": "onnx", "torch": "model"}


@dataclass(frozen=True)
class Version:
    """One version of a registered model."""

    name: str
    version: int
    tags: dict[str, str] = field(compare=False)

    def __str__(self) -> str:
        return f"{self.name} version {self.version}"


def of_runtime(version: Version, names: dict[str, str], runtime: str = "") -> str:
    """The name, among those of its artifacts, of the folder that a version is opened from by a runtime.

    By default the runtime is that of the version's tag. Older versions have no such tag: they are opened from the
    exported folder, else from the model folder. Raises InputError for an unknown runtime, or one without a folder.
    """
    runtime = runtime or version.tags.get(RUNTIME, "")
    if runtime and runtime not in FOLDERS:
        raise InputError(choices("runtime", runtime, FOLDERS))
    wanted = [FOLDERS[runtime]] if runtime else list(FOLDERS.values())
    name = next((name for name in wanted if name in names), "")
    if not name:
        advice = "add its run to export: and retrain" if wanted[0] == FOLDERS["onnx"] else "a cascade has exports alone"
        raise InputError(f"{version} was registered without {wanted[0]}; {advice}")
    return name
