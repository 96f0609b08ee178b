"""Import closures: the files that a module runs, with imports inside functions and plugins.

DVC does not follow imports itself (treeverse/dvc#9195). A plugin is a module that `plugins.load` opens by name. If an
entry of params.yaml names it (`plugins.load("pipelines.objectives", entry.objective)`), only that entry depends on it.
Any other name is known only at run time, so the module depends on every plugin of the package.
"""

import ast
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from pipelines.core.errors import InputError, one_line

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "pipelines"


class Plugins(NamedTuple):
    """The plugins of a package. `key` is the key of the entry that names the plugin; "" if no entry names it."""

    package: str
    key: str


@dataclass(frozen=True)
class Closure:
    """The code that a file runs.

    Attributes:
        files: maps each file to the file that imports it, and the first file to itself; paths relative to the root.
        named: the plugins that an entry of params.yaml names.
    """

    files: dict[str, str] = field(default_factory=dict)
    named: frozenset[Plugins] = frozenset()

    def chain(self, file: str) -> list[str]:
        """The chain of imports from the first file to `file`."""
        chain = [file]
        while self.files[chain[-1]] != chain[-1]:
            chain.append(self.files[chain[-1]])
        return chain[::-1]


def closure(start: str, root: Path = ROOT, imported: dict[str, list[str]] | None = None) -> Closure:
    """The closure of the file `start`, a path below `root`; nearest imports first.

    Args:
        imported: a cache that maps files to the files that they import; several calls may share one dict.
    """
    imported = {} if imported is None else imported
    files, named, waiting = {start: start}, set[Plugins](), [start]
    for file in waiting:
        named.update(plugins for plugins in _imports(root / file).loads if plugins.key)
        if file not in imported:
            imported[file] = _imported(file, root)
        for path in imported[file]:
            if path not in files:
                files[path] = file
                waiting.append(path)
    return Closure({path: by for path, by in files.items() if _imports(root / path).holds_code}, frozenset(named))


def here() -> Path:
    """The folder with the code that runs in the working folder: the checkout that it is, else the installed one."""
    return Path() if Path("pipelines/stages").is_dir() else ROOT


def copy(start: str, to: Path, root: Path = ROOT) -> Path:
    """Copy the closure of the file `start`, and the packages above it, into `to`; returns the copy of `start`."""
    files = [root / file for file in closure(start, root).files]
    above = {folder / "__init__.py" for file in files for folder in file.relative_to(root).parents if folder.name}
    for file in {*files, *(root / name for name in above)}:
        copied = to / file.relative_to(root)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copied)
    return to / start


def plugin_files(package: str, root: Path = ROOT) -> list[str]:
    """The files of a package's plugins."""
    folder = root.joinpath(*package.split("."))
    return sorted(path.relative_to(root).as_posix() for path in folder.glob("*.py") if path.name != "__init__.py")


def modules(files: Iterable[str], root: Path = ROOT) -> list[str]:
    """The modules to import before running these files: libraries as "module" or "module:name", then the files."""
    libraries = dict.fromkeys(library for file in files for library in _imports(root / file).libraries)
    return [*libraries, *(PurePosixPath(file).with_suffix("").as_posix().replace("/", ".") for file in files)]


def parsed(file: Path) -> ast.Module:
    """The syntax tree of a Python file. Raises InputError if the file is not valid Python."""
    try:
        return ast.parse(file.read_bytes())
    except (SyntaxError, ValueError) as error:  # ValueError: a NUL byte
        raise InputError(f"{file}: line {getattr(error, 'lineno', 1)}: not valid Python ({one_line(error)})") from None


def _imported(file: str, root: Path) -> list[str]:
    """The files that a file imports, and the plugins that it loads by a name from no entry."""
    modules, loads, _, _ = _imports(root / file)
    files = [path for module in modules for path in _files(module, root)]
    return files + [path for plugins in loads if not plugins.key for path in plugin_files(plugins.package, root)]


def _files(module: str, root: Path) -> Iterator[str]:
    """The files that run when `module` is imported: its own and those of the packages above it."""
    parts = module.split(".")
    places = [PurePosixPath(*parts).with_suffix(".py")]
    places += [PurePosixPath(*parts[:n], "__init__.py") for n in range(1, len(parts) + 1)]
    return (str(place) for place in places if (root / place).is_file())


class _Imports(NamedTuple):
    """The imports of a file, anywhere in it: modules of the project, plugins, and libraries.

    `holds_code` is False for an __init__.py with nothing but a docstring.
    """

    modules: list[str]
    loads: list[Plugins]
    holds_code: bool
    libraries: list[str]


def _imports(file: Path) -> _Imports:
    return _read(file, file.stat().st_mtime_ns)


@lru_cache(maxsize=1024)
def _read(file: Path, changed: int) -> _Imports:
    tree = parsed(file)
    modules: list[str] = []
    libraries: list[str] = []
    loads: list[Plugins] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
            libraries += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules += [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            libraries += [f"{node.module}:{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "plugins.load":
            package, name = node.args
            if isinstance(package, ast.Constant):
                by_entry = isinstance(name, ast.Attribute) and ast.unparse(name.value) == "entry"
                loads.append(Plugins(str(package.value), name.attr if by_entry else ""))  # type: ignore[attr-defined]
    # an __init__.py with only a docstring runs nothing
    holds_code = file.name != "__init__.py" or len(tree.body) > 1
    ours = [name for name in modules if name.split(".")[0] == PACKAGE]
    return _Imports(ours, loads, holds_code, [name for name in libraries if re.split("[.:]", name)[0] != PACKAGE])
