"""Manifests of the code that stages run: the stage `code`, on whose files the other stages depend.

A manifest has a line for each file of an import closure: a digest and the path. `artifacts/code/stages/` has one for
each stage, and a folder for each package of plugins has one for each plugin, since DVC has one list of deps for all
entries of a stage. The digest is of a file's statements: an edited comment, docstring or line break changes none.
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
from pipelines.graph.import_closure import ROOT, Closure, closure, parsed, plugin_files

FILE = "dvc.yaml"
STAGE = "code"
COMMAND = re.compile(r"python -m (pipelines\.stages\.\w+)")
# what differs between versions of Python, or says nothing of what is run
LEFT_OUT = {"ctx", "kind", "type_comment", "type_ignores"}


def stages(root: Path = ROOT, imported: dict[str, list[str]] | None = None) -> dict[str, Closure]:
    """Each stage of dvc.yaml with the closure of its module, which is the same for every entry.

    Args:
        imported: as that of `closure`.
    """
    imported = {} if imported is None else imported
    listed = yaml.safe_load((root / FILE).read_text(encoding="utf-8"))["stages"]
    commands = {name: COMMAND.match(first(each.get("do", each)["cmd"])) for name, each in listed.items()}
    modules = {name: match[1].replace(".", "/") + ".py" for name, match in commands.items() if match}
    return {name: closure(file, root, imported) for name, file in modules.items()}


def first(command: str | list[str]) -> str:
    """The first of a stage's commands, which may be several."""
    return command if isinstance(command, str) else command[0]


def of_stage(stage: str) -> Path:
    """The manifest of a stage's module."""
    return paths.CODE / "stages" / f"{stage}.txt"


def of_plugin(package: str, plugin: str) -> Path:
    """The manifest of a plugin of a package, such as `pipelines.objectives`."""
    return paths.CODE / package.rpartition(".")[2] / f"{plugin}.txt"


def manifests(root: Path = ROOT) -> dict[Path, str]:
    """The path of each manifest and its text."""
    imported: dict[str, list[str]] = {}
    closures = stages(root, imported)
    texts = {of_stage(name): text(each.files, root) for name, each in closures.items()}
    for package in sorted({plugins.package for each in closures.values() for plugins in each.named}):
        for file in plugin_files(package, root):
            texts[of_plugin(package, Path(file).stem)] = text(closure(file, root, imported).files, root)
    return texts


def text(files: Mapping[str, str], root: Path = ROOT) -> str:
    """The text of a manifest of these files."""
    return "".join(f"{digest(root / file)} {file}\n" for file in sorted(files))


def read(manifest: str) -> dict[str, str]:
    """The digest of each file of a manifest's text."""
    lines = (line.partition(" ") for line in manifest.splitlines())
    return {file: number for number, _, file in lines}


def written() -> dict[Path, str]:
    """The path of each manifest that is there and its text."""
    there = (path for path in sorted(paths.CODE.rglob("*")) if path.is_file())
    return {path: path.read_text(encoding="utf-8", errors="replace") for path in there}


def write(texts: Mapping[Path, str]) -> None:
    """Write the manifests that are not there already, and remove any other file."""
    there = written()
    for path in there.keys() - texts.keys():
        path.unlink()
    for path, lines in texts.items():
        if there.get(path) != lines:
            with paths.fresh_file(path) as aside:
                aside.write_text(lines, encoding="utf-8")


def digest(file: Path) -> str:
    """The sha256 of a Python file's statements, without comments, docstrings and format.

    It is the same by every Python that reads the file. Raises InputError if the file is no Python.
    """
    return _digest(file, file.stat().st_mtime_ns)


@lru_cache(maxsize=1024)
def _digest(file: Path, changed: int) -> str:
    return hashlib.sha256(repr(_plain(parsed(file))).encode()).hexdigest()


def _plain(node: Any) -> Any:
    """A syntax tree as tuples and lists, without positions and without text that is no value of anything."""
    if isinstance(node, list):
        return [_plain(part) for part in node if not (isinstance(part, ast.Expr) and _is_text(part.value))]
    if not isinstance(node, ast.AST):
        return node
    if isinstance(node, ast.JoinedStr):
        node.values = [part for part in node.values if not _is_empty(part)]  # Python 3.12 ends some with one
    fields = ((name, _plain(value)) for name, value in ast.iter_fields(node) if name not in LEFT_OUT)
    # later versions of Python add fields, which are empty in code of earlier ones
    return type(node).__name__, [(name, value) for name, value in fields if value not in (None, [])]


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_empty(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == ""


def is_code(path: str) -> bool:
    """Return whether a path in dvc.yaml or dvc.lock leads to code, rather than to data."""
    return path.endswith(".py") or Path(path).is_relative_to(paths.CODE)


def runs(code: Closure, entry: Mapping[str, Any], root: Path = ROOT, where: str = "") -> set[str]:
    """The files that a stage runs for an entry of params.yaml, the plugins that the entry names among them.

    Raises UsageError, which begins with `where`, if there is no such plugin.
    """
    files = set(code.files)
    for package, key in code.named:
        known = {Path(file).stem for file in plugin_files(package, root)}
        if entry.get(key) not in known:
            raise UsageError(f"{where}: {choices(key, entry.get(key), known)}")
        files |= set(closure(f"{package.replace('.', '/')}/{entry[key]}.py", root).files)
    return files


def main() -> None:
    """Write the manifests of the checkout, and say which files changed; the stage `code`."""
    was, texts = set("".join(written().values()).splitlines()), manifests(Path())
    write(texts)
    now = set("".join(texts.values()).splitlines())
    changed = sorted({line.partition(" ")[2] for line in was ^ now}) if was else []
    print(f"code: {len(now)} files{''.join(f'; {file} changed' for file in changed)}", file=sys.stderr)


if __name__ == "__main__":
    main()
