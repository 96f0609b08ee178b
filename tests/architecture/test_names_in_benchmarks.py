"""Names that benchmarks take from this project are there, read without running: no test runs a benchmark."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.places import ROOT

BENCHMARKS = sorted((ROOT / "benchmarks").glob("*.py"))


def file_of(module: str) -> Path | None:
    """The file of a module of this project, or of a benchmark, which imports its neighbours by their names."""
    path = module.replace(".", "/")
    files = (ROOT / f"{path}.py", ROOT / path / "__init__.py", ROOT / "benchmarks" / f"{path}.py")
    return next((file for file in files if file.is_file()), None)


def of_project(module: str) -> bool:
    return file_of(module.partition(".")[0]) is not None or (ROOT / module.partition(".")[0]).is_dir()


@cache
def bound_in(file: Path) -> frozenset[str]:
    """The names that a file's own statements bind, wherever they stand."""
    names = set[str]()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(name.asname or name.name).partition(".")[0] for name in node.names}
    return frozenset(names)


def missing(tree: ast.Module) -> Iterator[str]:
    """Modules that are not there, names that a module does not have, and `module.name` of such names."""
    modules: dict[str, Path] = {}
    for node in ast.walk(tree):
        for line in node.names if isinstance(node, ast.Import) else ():
            if of_project(line.name):
                if not (file := file_of(line.name)):
                    yield line.name
                elif line.asname or "." not in line.name:
                    modules[line.asname or line.name] = file
        if isinstance(node, ast.ImportFrom) and node.module and of_project(node.module):
            source = file_of(node.module)
            for line in node.names:
                if file := file_of(f"{node.module}.{line.name}"):
                    modules[line.asname or line.name] = file
                elif not source or line.name not in bound_in(source):
                    yield f"{node.module}.{line.name}"
    arguments = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = node.value.id
            if module in modules and module not in arguments | stored and node.attr not in bound_in(modules[module]):
                yield f"{module}.{node.attr}"


@pytest.mark.parametrize("file", BENCHMARKS, ids=lambda file: file.stem)
def test_what_a_benchmark_takes_from_the_project_is_there(file: Path) -> None:
    assert list(missing(ast.parse(file.read_text(encoding="utf-8")))) == []


def test_what_is_not_there_is_named() -> None:
    wrong = """
import harness
from pipelines.core import threads, no_module
from pipelines.nowhere import name
from tests.support import servers
servers.mlflow(harness.ratio, harness.no_ratio, threads.use)
"""
    assert sorted(missing(ast.parse(wrong))) == [
        "harness.no_ratio",
        "pipelines.core.no_module",
        "pipelines.nowhere.name",
        "servers.mlflow",
    ]


@pytest.mark.parametrize("file", BENCHMARKS, ids=lambda file: file.stem)
def test_memory_is_not_that_of_the_process_that_started_it(file: Path) -> None:
    """On Linux ru_maxrss has the peak of the parent in it; `peak_mb` of interleaved_worker.py has not."""
    assert "ru_maxrss" not in file.read_text(encoding="utf-8")
