"""Write the code that each stage runs into its deps in dvc.yaml: `make graph`.

dvc.yaml lists files. DVC has one list of deps for all entries of a stage; it cannot be longer for some of them
(docs/decisions/006). The entry names the file of its plugin. The other files that a plugin imports are links in a
folder of its own, imports/<package>/<plugin>, which the list names in the same way.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from pipelines.core.errors import UsageError, choices
from pipelines.graph.closure import ROOT, Closure, closure, plugin_files

FILE, LINKS = "dvc.yaml", "imports"
MARK = "# code, by `make graph`"
COMMAND = re.compile(r"python -m ([\w.]+)")


def stages(root: Path = ROOT) -> dict[str, Closure]:
    """Each stage of dvc.yaml with the closure of its module, which is the same for every entry."""
    found = yaml.safe_load((root / FILE).read_text(encoding="utf-8"))["stages"]
    commands = {name: COMMAND.match(first(stage.get("do", stage)["cmd"])) for name, stage in found.items()}
    modules = {name: match[1].replace(".", "/") + ".py" for name, match in commands.items() if match}
    return {name: closure(file, root) for name, file in modules.items()}


def first(command: str | list[str]) -> str:
    """The first of a stage's commands, which may be several."""
    return command if isinstance(command, str) else command[0]


def links(root: Path = ROOT) -> dict[str, str]:
    """Every link below imports/ and the file that it points to: a file that a plugin imports and its stages do not.

    A package whose plugins import nothing else has no links. Otherwise every plugin has a folder; if it imports
    nothing else itself, the folder holds a link to the plugin.
    """
    found: dict[str, str] = {}
    naming: dict[str, list[Closure]] = {}
    for each in stages(root).values():
        for plugin in each.named:
            naming.setdefault(plugin.package, []).append(each)
    for package, by in naming.items():
        known = set.intersection(*(set(each.files) for each in by))
        more = {file: set(closure(file, root).files) - known - {file} for file in plugin_files(package, root)}
        for file, imported in more.items() if any(more.values()) else ():
            for path in sorted(imported) or [file]:
                inside = PurePosixPath(path).relative_to(PurePosixPath(path).parts[0])
                found[f"{folder_of(package, PurePosixPath(file).stem)}/{'.'.join(inside.parts)}"] = path
    return found


def folder_of(package: str, plugin: str) -> str:
    """The folder of a plugin's links."""
    return f"{LINKS}/{package.rpartition('.')[2]}/{plugin}"


def is_code(path: str) -> bool:
    """Whether a path of dvc.yaml or dvc.lock is code, rather than data."""
    return path.endswith(".py") or path.startswith(f"{LINKS}/")


def code(stage: Closure, linked: dict[str, str]) -> Iterator[str]:
    """The deps of a stage that are code."""
    yield from sorted(stage.files)
    for package, key in sorted(stage.named):
        yield f"{package.replace('.', '/')}/${{item.{key}}}.py"
        if any(link.startswith(f"{folder_of(package, '')}") for link in linked):
            yield folder_of(package, f"${{item.{key}}}")


def written(root: Path = ROOT) -> str:
    """The text of dvc.yaml with new code deps for every stage, after the mark."""
    linked, found = links(root), stages(root)
    lines: list[str] = []
    stage, skipping = "", False
    for line in (root / FILE).read_text(encoding="utf-8").splitlines():
        if name := re.match(r"  (\w+):$", line):
            stage = name[1]
        if skipping and line.lstrip().startswith("- "):
            continue
        skipping = line.strip() == MARK
        lines.append(line)
        if skipping:
            indent = line[: len(line) - len(line.lstrip())]
            lines += [f"{indent}- {dep}" for dep in code(found[stage], linked)]
    return "\n".join(lines) + "\n"


def write(root: Path = ROOT) -> None:
    """Write dvc.yaml and the links."""
    (root / FILE).write_text(written(root), encoding="utf-8")
    shutil.rmtree(root / LINKS, ignore_errors=True)
    for link, path in links(root).items():
        place = root / link
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(os.path.relpath(root / path, place.parent))


def runs(stage: Closure, entry: Mapping[str, Any], root: Path = ROOT, where: str = "") -> set[str]:
    """The files that a stage runs for an entry of params.yaml, the plugins that the entry names among them.

    Raises UsageError, which begins with `where`, if there is no such plugin.
    """
    files = set(stage.files)
    for package, key in stage.named:
        known = {Path(file).stem for file in plugin_files(package, root)}
        if entry.get(key) not in known:
            raise UsageError(f"{where}: {choices(key, entry.get(key), known)}")
        files |= set(closure(f"{package.replace('.', '/')}/{entry[key]}.py", root).files)
    return files


if __name__ == "__main__":
    write()
    print(f"{FILE}: {', '.join(f'{name} {len(each.files)}' for name, each in stages().items())} files", file=sys.stderr)
