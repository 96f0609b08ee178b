"""Every file of ours that a stage imports is among its deps in dvc.yaml, so that no edit goes unnoticed.

DVC does not follow imports itself (treeverse/dvc#9195).
"""

import ast
import shutil
from pathlib import Path

import pytest
from dvc.repo import Repo
from dvc.stage import PipelineStage
from dvc.utils.serialize import load_yaml, modify_yaml

ROOT = Path(__file__).resolve().parents[2]
OBSERVERS = ("pipelines/tracking/",)  # they watch a run and cannot change what it writes
PLUGINS = {"pipelines/data/corpora", "pipelines/objectives", "pipelines/compression/methods"}


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> list[PipelineStage]:
    """The stages of dvc.yaml under every ready-made params file."""
    found = []
    for params in [ROOT / "params.yaml", *sorted((ROOT / "params").glob("*.yaml"))]:
        here = tmp_path_factory.mktemp(params.stem)
        shutil.copyfile(ROOT / "dvc.yaml", here / "dvc.yaml")
        shutil.copyfile(params, here / "params.yaml")
        Repo.init(str(here), no_scm=True).close()
        with Repo(str(here)) as repo:
            found += [stage for stage in repo.index.stages if isinstance(stage, PipelineStage)]
    return found


def module_files(module: str) -> list[Path]:
    """The files that importing `module` runs: itself and the packages above it."""
    parts = module.split(".")
    above = [ROOT.joinpath(*parts[:n], "__init__.py") for n in range(1, len(parts) + 1)]
    return [path for path in [ROOT.joinpath(*parts).with_suffix(".py"), *above] if path.exists()]


def closure(path: Path, seen: set[Path]) -> set[Path]:
    """`path` and every file of pipelines/ that it imports, at any depth."""
    if path in seen:
        return seen
    seen.add(path)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            if name.split(".")[0] == "pipelines":
                for file in module_files(name):
                    closure(file, seen)
    return seen


def uncovered(stage: PipelineStage, skip: str = "") -> list[str]:
    """Files that the stage imports and dvc.yaml does not list; `skip` leaves one dep out."""
    deps = [dep.def_path for dep in stage.deps if dep.def_path != skip]
    code = [ROOT / dep for dep in deps if dep.endswith(".py")]  # the entry point and its plugins
    needed = {str(path.relative_to(ROOT)) for start in code for path in closure(start, set())}
    # an empty package file holds nothing that could change what a stage does, but its docstring
    needed = {
        name
        for name in needed
        if not name.endswith("__init__.py") or len(ast.parse((ROOT / name).read_text()).body) > 1
    }
    return [
        name
        for name in sorted(needed)
        if not name.startswith(OBSERVERS) and not any(name == dep or name.startswith(dep + "/") for dep in deps)
    ]


def test_deps_cover_imports(stages: list[PipelineStage]) -> None:
    assert len(stages) >= 15
    assert {stage.addressing: missing for stage in stages if (missing := uncovered(stage))} == {}


def test_a_dep_left_out_is_found(stages: list[PipelineStage]) -> None:
    finetune = next(stage for stage in stages if ":finetune@" in stage.addressing)
    assert any(name.startswith("pipelines/training/") for name in uncovered(finetune, skip="pipelines/training"))


def test_resources_make_nothing_stale(stages: list[PipelineStage]) -> None:
    keys = {str(key) for stage in stages for dep in stage.params for key in dep.params}
    assert "finetune.headlines" in keys
    assert not any(key.startswith("resources") for key in keys)


def test_every_plugin_folder_is_named_by_a_stage() -> None:
    text = (ROOT / "dvc.yaml").read_text(encoding="utf-8")
    assert all(f"{folder}/${{item." in text for folder in PLUGINS)


@pytest.mark.parametrize("file", ["params.yaml", *sorted(path.name for path in (ROOT / "params").iterdir())])
def test_dvc_can_rewrite_params(file: str, checkout: Path) -> None:
    """As `dvc exp run --set-param` does, in its own round trip, which loses quotes between braces."""
    source = next(path for path in (ROOT / file, ROOT / "params" / file) if path.is_file())
    shutil.copyfile(source, "params.yaml")
    before = load_yaml("params.yaml")
    with modify_yaml("params.yaml") as values:
        values["resources"]["threads"] = 1
    assert load_yaml("params.yaml") == before | {"resources": before["resources"] | {"threads": 1}}
