"""Manifests of the code that stages run; the stage `code` writes them, and the other stages depend on them.

A manifest has a line for each file of an import closure: a digest and the path. `artifacts/code/stages/` has one
manifest for each stage. Plugins have manifests of their own, in a folder for each package of plugins, because DVC has
one list of deps for all entries of a stage. The digest covers only a file's statements: an edited comment, docstring
or line break does not change it.
"""

import ast
import hashlib
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from pipelines.core import paths
from pipelines.core.errors import UsageError, choices
from pipelines.graph.import_closure import ROOT, Closure, closure, here, parsed, plugin_files

FILE = "dvc.yaml"
STAGE = "code"
COMMAND = re.compile(r"python -m (pipelines\.stages\.\w+)")
# fields of ast nodes that differ between versions of Python, or do not affect what runs
LEFT_OUT = {"ctx", "kind", "type_comment", "type_ignores"}


def stages(
    root: Path = ROOT, imported: dict[str, list[str]] | None = None, graph: Path | None = None
) -> dict[str, Closure]:
    """Map each stage of dvc.yaml to the import closure of its module, which is the same for every entry.

    Args:
        imported: the cache of imports, as in `closure`.
        graph: the dvc.yaml; by default that of `root`.
    """
    imported = {} if imported is None else imported
    listed = in_graph(graph or root / FILE)
    commands = {name: COMMAND.match(first(entry.get("do", entry)["cmd"])) for name, entry in listed.items()}
    modules = {name: match[1].replace(".", "/") + ".py" for name, match in commands.items() if match}
    return {name: closure(file, root, imported) for name, file in modules.items()}


def in_graph(graph: Path) -> dict[str, Any]:
    """The stages of a dvc.yaml as they are written there. Raises UsageError if it has none, or one has no command."""
    try:
        values = yaml.safe_load(graph.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"{graph}: not readable as YAML: {' '.join(str(error).split())[:300]}") from None
    listed = values.get("stages") if isinstance(values, dict) else None
    if not isinstance(listed, dict):
        raise UsageError(f"{graph}: no `stages:` with the stages of the graph")
    for name, entry in listed.items():
        inner = entry.get("do", entry) if isinstance(entry, dict) else None
        command = inner.get("cmd") if isinstance(inner, dict) else None
        if not (isinstance(command, str | list) and command and isinstance(first(command), str)):
            raise UsageError(f"{graph}: stages.{name}: no `cmd:` with a command")
    return listed


def first(command: str | list[str]) -> str:
    """The first command of a stage, which may have several."""
    return command if isinstance(command, str) else command[0]


def of_stage(stage: str) -> Path:
    """The manifest of a stage's module."""
    return paths.CODE / "stages" / f"{stage}.txt"


def of_plugin(package: str, plugin: str) -> Path:
    """The manifest of a plugin of a package, such as `pipelines.objectives`."""
    return paths.CODE / package.rpartition(".")[2] / f"{plugin}.txt"


def manifests(root: Path = ROOT, graph: Path | None = None) -> dict[Path, str]:
    """Map the path of each manifest to the text that it should have."""
    imported: dict[str, list[str]] = {}
    closures = stages(root, imported, graph)
    texts = {of_stage(name): text(followed.files, root) for name, followed in closures.items()}
    for package in sorted({plugins.package for followed in closures.values() for plugins in followed.named}):
        for file in plugin_files(package, root):
            texts[of_plugin(package, Path(file).stem)] = text(closure(file, root, imported).files, root)
    return texts


def text(files: Mapping[str, str], root: Path = ROOT) -> str:
    """The text of a manifest for these files."""
    return "".join(f"{digest(root / file)} {file}\n" for file in sorted(files))


def read(manifest: str) -> dict[str, str]:
    """Parse a manifest's text: map each file to its digest."""
    lines = (line.partition(" ") for line in manifest.splitlines())
    return {file: number for number, _, file in lines}


def written() -> dict[Path, str]:
    """Map the path of each manifest on disk to its text."""
    there = (path for path in sorted(paths.CODE.rglob("*")) if path.is_file())
    return {path: path.read_text(encoding="utf-8", errors="replace") for path in there}


def write(texts: Mapping[Path, str]) -> None:
    """Write the manifests that are missing or differ, and remove every other file in their folder."""
    there = written()
    for path in there.keys() - texts.keys():
        path.unlink()
    for path, lines in texts.items():
        if there.get(path) != lines:
            with paths.fresh_file(path) as aside:
                aside.write_text(lines, encoding="utf-8")


def digest(file: Path) -> str:
    """The sha256 of a Python file's statements, without comments, docstrings and formatting.

    The digest does not depend on the version of Python. Raises InputError if the file is not valid Python.
    """
    return _digest(file, file.stat().st_mtime_ns)


@lru_cache(maxsize=1024)
def _digest(file: Path, changed: int) -> str:
    return hashlib.sha256(repr(_plain(parsed(file))).encode()).hexdigest()


def _plain(node: Any) -> Any:
    """A syntax tree as tuples and lists, without positions and without strings that stand alone, such as docstrings."""
    if isinstance(node, list):
        return [_plain(part) for part in node if not (isinstance(part, ast.Expr) and _is_text(part.value))]
    if not isinstance(node, ast.AST):
        return node
    if isinstance(node, ast.JoinedStr):
        node.values = [part for part in node.values if not _is_empty(part)]  # Python 3.12 ends some f-strings with one
    fields = ((name, _plain(value)) for name, value in ast.iter_fields(node) if name not in LEFT_OUT)
    # newer versions of Python add fields; they are empty in code that older versions can parse
    return type(node).__name__, [(name, value) for name, value in fields if value not in (None, [])]


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_empty(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == ""


def is_code(path: str) -> bool:
    """Return whether a path in dvc.yaml or dvc.lock is code rather than data."""
    return path.endswith(".py") or Path(path).is_relative_to(paths.CODE)


def runs(code: Closure, entry: Mapping[str, Any], root: Path = ROOT, where: str = "") -> set[str]:
    """The files that a stage runs for an entry of params.yaml, including the plugins that the entry names.

    Raises UsageError if there is no such plugin; its message begins with `where`.
    """
    files = set(code.files)
    for package, key in code.named:
        known = {Path(file).stem for file in plugin_files(package, root)}
        if entry.get(key) not in known:
            raise UsageError(f"{where}: {choices(key, entry.get(key), known)}")
        files |= set(closure(f"{package.replace('.', '/')}/{entry[key]}.py", root).files)
    return files


def main() -> None:
    """Run the stage `code`: write the manifests of the checkout, and print which files changed."""
    was, texts = set("".join(written().values()).splitlines()), manifests(here(), Path(FILE))
    write(texts)
    now = set("".join(texts.values()).splitlines())
    changed = sorted({line.partition(" ")[2] for line in was ^ now}) if was else []
    print(f"code: {len(now)} files{''.join(f'; {file} changed' for file in changed)}", file=sys.stderr)


if __name__ == "__main__":
    main()
