"""Private and undocumented names of libraries stand in docs/private-names.md, and each of them is there and in use."""

import ast
import importlib
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from dvc.repo import Repo

from tests.support.places import ROOT

LINE = re.compile(r"^\| `([\w.]+)` \| (\w+) ([\w.]+) \|", re.MULTILINE)
OBJECT = re.compile(r"^\| `(dvc[\w.]+)` \| dvc [\w.]+ \| ((?:`\w+` ?)+) \|$", re.MULTILINE)
VENDORS = ("torch", "transformers", "ray", "prefect", "mlflow", "dvc", "uvicorn")
UNDOCUMENTED = ("dvc.", "mlflow.utils.", "mlflow.store.", "mlflow.server.", "prefect.server.", "uvicorn.")  # modules
# what variables of pipelines/graph hold; of a dep that holds params too
OBJECTS = {
    "repo": ("dvc.repo.Repo",),
    "stage": ("dvc.stage.PipelineStage",),
    "out": ("dvc.output.Output",),
    "dep": ("dvc.dependency.base.Dependency", "dvc.dependency.param.ParamsDependency"),
}


class Listed(NamedTuple):
    name: str
    package: str
    version: str


PAGE = (ROOT / "docs/private-names.md").read_text(encoding="utf-8")
LIST = [Listed(*fields) for fields in LINE.findall(OBJECT.sub("", PAGE))]
ATTRIBUTES = {name: set(re.findall(r"\w+", names)) for name, names in OBJECT.findall(PAGE)}
FILES = [path for top in ("pipelines", "bertline", "flows") for path in sorted((ROOT / top).rglob("*.py"))]


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_exit"  # os._exit is documented


def resolved(name: str) -> Any:
    """The object of a dotted name, or the type of an instance's attribute; AttributeError where it has vanished."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            annotated = getattr(value, "__annotations__", {})
            value = annotated[part] if part in annotated else getattr(value, part)
        return value
    raise AttributeError(name)


def used(source: str) -> Iterator[str]:
    """Private names that a file uses: attributes of others, imports, and what it overrides in a library's classes."""
    tree = ast.parse(source)
    vendors = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in VENDORS
        for alias in node.names
    }
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    defined = {name for node in ast.walk(tree) for name in names_of(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in defined:
            yield node.attr
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in VENDORS:
            inside = [part for part in (node.module or "").split(".") if is_private(part)]
            undocumented = f"{node.module}.".startswith(UNDOCUMENTED)
            yield from (alias.name for alias in node.names if inside or undocumented or is_private(alias.name))
    for node in classes.values():
        for base in bases(node, classes, vendors):
            yield from (name for name in body_names(node) if is_private(name) and hasattr(base, name))


def names_of(node: ast.AST) -> list[str]:
    """What the node defines as an attribute of its own class: methods, self.x = ..."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [
        part.attr
        for target in targets
        for part in ast.walk(target)
        if isinstance(part, ast.Attribute) and ast.unparse(part.value) == "self"
    ]


def bases(node: ast.ClassDef, classes: dict[str, ast.ClassDef], vendors: dict[str, str]) -> Iterator[Any]:
    """Classes of libraries that a class is made from, at any depth within its file."""
    for base in map(ast.unparse, node.bases):
        if base in classes:
            yield from bases(classes[base], classes, vendors)
        elif base in vendors:
            yield resolved(vendors[base])


def body_names(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef):
            yield statement.name
        elif isinstance(statement, ast.Assign):
            yield from (target.id for target in statement.targets if isinstance(target, ast.Name))


def test_every_private_name_that_is_used_is_listed_and_the_other_way_round() -> None:
    last = {listed.name.rpartition(".")[2] for listed in LIST}
    places = {name: path.relative_to(ROOT) for path in FILES for name in used(path.read_text(encoding="utf-8"))}
    assert len(LIST) >= 5
    assert {name: place for name, place in places.items() if name not in last} == {}, "list it in docs/private-names.md"
    assert last - set(places) == set(), "it is used no more: take it out of docs/private-names.md"


@pytest.mark.parametrize("listed", LIST, ids=lambda listed: listed.name)
def test_a_private_name_is_still_there(listed: Listed) -> None:
    assert version(listed.package).split("+")[0] == listed.version, (
        f"look at {listed.name} again, then change its version"
    )
    resolved(listed.name)


def test_a_private_name_that_vanished_is_reported() -> None:
    with pytest.raises(AttributeError, match="_never"):
        resolved("torch._never")


PLANTED = {
    "an attribute": ("import torch\ntorch._dynamo_of_old(1)\n", "_dynamo_of_old"),
    "an attribute of a part": ("def f(model):\n    return model.config._hidden\n", "_hidden"),
    "an import": ("from ray._private import worker\n", "worker"),
    "an import inside": ("def f():\n    from torch import _C\n", "_C"),
    "a method that a library calls": (
        "from transformers import PreTrainedModel\n"
        "class Ours(PreTrainedModel):\n    pass\n"
        "class Theirs(Ours):\n    def _init_weights(self, module):\n        pass\n",
        "_init_weights",
    ),
}


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_private_name_is_found(what: str) -> None:
    source, name = PLANTED[what]
    assert name in list(used(source))


def test_private_names_of_this_project_need_no_listing() -> None:
    source = (
        "class A:\n    def __init__(self):\n        self._x = 1\n"
        "    def _y(self):\n        return self._x + other._y()\n"
    )
    assert list(used(source)) == []


def attributes(source: str) -> Iterator[tuple[str, str]]:
    """Attributes that a file reads of DVC's objects: the variable and the name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            variable = ast.unparse(node.value).rpartition(".")[2]
            if variable in OBJECTS:
                yield variable, node.attr


def test_attributes_of_dvcs_objects_are_listed_and_the_other_way_round() -> None:
    files = sorted((ROOT / "pipelines/graph").glob("*.py"))
    read = {pair for path in files for pair in attributes(path.read_text(encoding="utf-8"))}
    assert len(read) > 30
    listed = {
        (variable, name) for variable, classes in OBJECTS.items() for owner in classes for name in ATTRIBUTES[owner]
    }
    assert read == listed


def test_dvcs_objects_have_these_attributes(checkout: Path) -> None:
    Path("params.yaml").write_text("a: 1\n")
    Path("read").touch()
    stage = {"cmd": "echo > written", "deps": ["read"], "params": ["a"], "outs": ["written"]}
    Path("dvc.yaml").write_text(yaml.safe_dump({"stages": {"it": stage}}))
    Repo.init(".", no_scm=True).close()
    with Repo(".") as repo:
        (dvc_stage,) = repo.index.stages
        params, dep = sorted(dvc_stage.deps, key=lambda dep: dep not in dvc_stage.params)
        objects = [repo, dvc_stage, dvc_stage.outs[0], dep, params]
        assert [f"{type(instance).__module__}.{type(instance).__name__}" for instance in objects] == [*ATTRIBUTES]
        for instance, (name, expected) in zip(objects, ATTRIBUTES.items(), strict=True):
            assert {attribute for attribute in expected if not hasattr(instance, attribute)} == set(), name
