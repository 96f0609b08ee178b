"""A stage depends on exactly what it runs: every file that it imports, at any depth, and no other.

DVC does not follow imports itself (treeverse/dvc#9195).
"""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from dvc.repo import Repo
from dvc.stage import PipelineStage
from dvc.utils.serialize import load_yaml, modify_yaml

from pipelines.core.errors import UsageError
from pipelines.graph import dependencies
from pipelines.graph.closure import closure
from tests.support import once
from tests.support.places import ROOT

PARAMS = [ROOT / "params.yaml", *sorted((ROOT / "params").glob("*.yaml"))]
CODE = ("pipelines/", "imports/")


class Listed(NamedTuple):
    """What dvc.yaml says of a stage under one params file, and the stage's entry there."""

    deps: list[str]
    params: list[str]
    entry: dict[str, Any]


@pytest.fixture(scope="session")
def stages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Listed]:
    """The stages of dvc.yaml under every ready-made params file."""

    def make(folder: Path) -> None:
        found = {name: listed for params in PARAMS for name, listed in under(params, folder / params.stem)}
        (folder / "stages.json").write_text(json.dumps(found))

    found = json.loads((once.made(tmp_path_factory, "stages", make) / "stages.json").read_text())
    return {name: Listed(*listed) for name, listed in found.items()}


def under(params: Path, here: Path) -> Iterator[tuple[str, Listed]]:
    here.mkdir()
    shutil.copyfile(ROOT / "dvc.yaml", here / "dvc.yaml")
    shutil.copyfile(params, here / "params.yaml")
    values = yaml.safe_load(params.read_text(encoding="utf-8"))
    Repo.init(str(here), no_scm=True).close()
    with Repo(str(here)) as repo:
        for stage in repo.index.stages:
            assert isinstance(stage, PipelineStage)
            section, _, key = stage.name.partition("@")
            keys = [str(each) for dep in stage.params for each in dep.params]
            entry = values[section][key] if key else {}
            yield f"{params.name}: {stage.name}", Listed([dep.def_path for dep in stage.deps], keys, entry)


def code_deps(stage: Listed) -> set[str]:
    """The files of code that a stage lists, or that stand as links in a folder that it lists."""
    listed = [dep for dep in stage.deps if dep.startswith(CODE)]
    assert len(set(listed)) == len(listed)
    return {file for dep in listed for file in linked(ROOT / dep)}


def linked(place: Path) -> list[str]:
    if place.is_file():
        return [place.relative_to(ROOT).as_posix()]
    return [link.resolve().relative_to(ROOT).as_posix() for link in place.iterdir()]


@pytest.fixture(scope="module")
def runs(stages: dict[str, Listed]) -> dict[str, set[str]]:
    """The files that each stage runs."""
    closures, known = dependencies.stages(), {}
    for name, stage in stages.items():
        section = name.partition(": ")[2].partition("@")[0]
        plugins = (section, *(stage.entry[each.key] for each in closures[section].named))
        if plugins not in known:
            known[plugins] = dependencies.runs(closures[section], stage.entry)
        known[name] = known[plugins]
    return {name: known[name] for name in stages}


def differences(runs: set[str], deps: set[str]) -> dict[str, list[str]]:
    """What is missing among `deps`, and what is too much."""
    found = {"missing": sorted(runs - deps), "too many": sorted(deps - runs)}
    return {name: files for name, files in found.items() if files}


def test_deps_are_the_files_that_a_stage_runs(stages: dict[str, Listed], runs: dict[str, set[str]]) -> None:
    assert len(stages) >= 150
    found = {name: differences(runs[name], code_deps(stage)) for name, stage in stages.items()}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}, "run make graph"


def test_a_dep_left_out_is_found_and_so_is_one_too_many(stages: dict[str, Listed], runs: dict[str, set[str]]) -> None:
    name = "params.yaml: finetune@headlines"
    deps = code_deps(stages[name])
    loop, app = "pipelines/training/loop.py", "pipelines/serving/app.py"
    assert differences(runs[name], deps - {loop}) == {"missing": [loop]}
    assert differences(runs[name], deps | {app}) == {"too many": [app]}


def test_dvc_yaml_and_the_links_are_what_make_graph_writes() -> None:
    assert dependencies.written() == (ROOT / "dvc.yaml").read_text(encoding="utf-8"), "run make graph"
    there_are = {
        link.relative_to(ROOT).as_posix(): link.resolve().relative_to(ROOT).as_posix()
        for link in (ROOT / "imports").rglob("*")
        if link.is_symlink() or link.is_file()
    }
    assert there_are == dependencies.links(), "run make graph"


def test_an_edit_makes_stale_the_stages_that_import_the_file_and_no_other(
    stages: dict[str, Listed], runs: dict[str, set[str]]
) -> None:
    """File by file: the stages that list it are those that run it."""
    deps = {name: code_deps(stage) for name, stage in stages.items()}
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / "pipelines").rglob("*.py")]
    assert len(files) > 150
    for file in files:
        assert {name for name in stages if file in deps[name]} == {name for name in stages if file in runs[name]}, file
    for nobodys in ("pipelines/entries/promote.py", "pipelines/entries/tune.py", "pipelines/core/checking.py"):
        assert not any(nobodys in listed for listed in deps.values())


def test_a_closure_follows_functions_plugins_and_packages(tmp_path: Path) -> None:
    files = {
        "pipelines/a.py": "def f():\n    from pipelines.room import b\n    import pipelines.c\n",
        "pipelines/room/__init__.py": '"""Nothing but words."""\n',
        "pipelines/room/b.py": 'plugins.load("pipelines.kinds", entry.kind)\nplugins.load("pipelines.any", name)\n',
        "pipelines/c.py": "import os\nfrom pipelines.code import d\n",
        "pipelines/code/__init__.py": '"""Words."""\nVALUE = 1\n',
        "pipelines/code/d.py": "",
        "pipelines/any/x.py": "",
        "pipelines/any/y.py": "import pipelines.a\n",
        "pipelines/kinds/k.py": "import pipelines.other\n",
        "pipelines/other.py": "",
        "pipelines/unused.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = closure("pipelines/a.py", tmp_path)
    a_b_c = {"pipelines/a.py", "pipelines/room/b.py", "pipelines/c.py"}
    plugins = {"pipelines/any/x.py", "pipelines/any/y.py"}
    assert set(found.files) == a_b_c | plugins | {"pipelines/code/__init__.py", "pipelines/code/d.py"}
    assert [tuple(each) for each in found.named] == [("pipelines.kinds", "kind")]
    assert found.chain("pipelines/code/d.py") == ["pipelines/a.py", "pipelines/c.py", "pipelines/code/d.py"]


def test_a_plugin_that_is_not_there_is_named_with_those_that_are() -> None:
    stage = dependencies.stages()["compress"]
    with pytest.raises(
        UsageError, match=r"^params\.yaml: compress\.x: no method 'dynamic_int' \(did you mean 'dynamic_int8"
    ):
        dependencies.runs(stage, {"method": "dynamic_int"}, where="params.yaml: compress.x")


def test_resources_make_nothing_stale(stages: dict[str, Listed]) -> None:
    keys = {key for stage in stages.values() for key in stage.params}
    assert "finetune.headlines" in keys
    assert not any(key.startswith("resources") for key in keys)


def test_every_plugin_that_an_entry_names_is_a_dep_of_its_own() -> None:
    named = {(each.package, each.key) for stage in dependencies.stages().values() for each in stage.named}
    assert named == {
        ("pipelines.data.corpora", "corpus"),
        ("pipelines.text.tokenizers", "tokenizer"),
        ("pipelines.objectives", "objective"),
        ("pipelines.compression.methods", "method"),
    }


def test_links_are_relative() -> None:
    targets = [os.readlink(link) for link in (ROOT / "imports").rglob("*") if link.is_symlink()]
    assert targets
    assert all(target.startswith("../../../pipelines/") for target in targets)


@pytest.mark.parametrize("file", ["params.yaml", *sorted(path.name for path in (ROOT / "params").iterdir())])
def test_dvc_can_rewrite_params(file: str, checkout: Path) -> None:
    """As `dvc exp run --set-param` does, in its own round trip, which loses quotes between braces."""
    source = next(path for path in (ROOT / file, ROOT / "params" / file) if path.is_file())
    shutil.copyfile(source, "params.yaml")
    before = load_yaml("params.yaml")
    with modify_yaml("params.yaml") as values:
        values["resources"]["threads"] = 1
    assert load_yaml("params.yaml") == before | {"resources": before["resources"] | {"threads": 1}}
