"""A stage depends on exactly what it runs: the statements of every file that it imports, at any depth, and no other.

DVC does not follow imports itself (treeverse/dvc#9195).
"""

import ast
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from dvc.repo import Repo
from dvc.stage import PipelineStage
from dvc.utils.serialize import load_yaml, modify_yaml

from pipelines.core import paths
from pipelines.core.errors import InputError, UsageError
from pipelines.graph import code_manifest
from pipelines.graph.import_closure import closure
from tests.support import once
from tests.support.places import ROOT

PARAMS = [ROOT / "params.yaml", *sorted((ROOT / "params").glob("*.yaml"))]


class Listed(NamedTuple):
    """What dvc.yaml says of a stage under one params file, and the stage's entry there."""

    deps: list[str]
    params: list[str]
    entry: dict[str, Any]


@pytest.fixture(scope="session")
def stages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Listed]:
    """The stages of dvc.yaml under every ready-made params file."""

    def make(folder: Path) -> None:
        stages = {name: listed for params in PARAMS for name, listed in under(params, folder / params.stem)}
        (folder / "stages.json").write_text(json.dumps(stages))

    stages = json.loads((once.made(tmp_path_factory, "stages", make) / "stages.json").read_text())
    return {name: Listed(*listed) for name, listed in stages.items()}


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
            keys = [str(param) for dep in stage.params for param in dep.params]
            entry = values[section][key] if key else {}
            yield f"{params.name}: {stage.name}", Listed([dep.def_path for dep in stage.deps], keys, entry)


@pytest.fixture(scope="module")
def manifests() -> dict[str, str]:
    return {path.as_posix(): text for path, text in code_manifest.manifests().items()}


def code_deps(stage: Listed, manifests: dict[str, str]) -> set[str]:
    """The files of the manifests that a stage lists."""
    listed = [dep for dep in stage.deps if code_manifest.is_code(dep)]
    assert len(set(listed)) == len(listed)
    return {file for dep in listed for file in code_manifest.read(manifests[dep])}


@pytest.fixture(scope="module")
def runs(stages: dict[str, Listed]) -> dict[str, set[str]]:
    """The files that each stage runs."""
    closures, known = code_manifest.stages(), {}
    for name, stage in stages.items():
        section = name.partition(": ")[2].partition("@")[0]
        if section == code_manifest.STAGE:
            continue
        plugins = (section, *(stage.entry[plugin.key] for plugin in closures[section].named))
        if plugins not in known:
            known[plugins] = code_manifest.runs(closures[section], stage.entry)
        known[name] = known[plugins]
    return {name: known[name] for name in stages if name in known}


def differences(runs: set[str], deps: set[str]) -> dict[str, list[str]]:
    """What is missing among `deps`, and what is too much."""
    differing = {"missing": sorted(runs - deps), "too many": sorted(deps - runs)}
    return {name: files for name, files in differing.items() if files}


def test_deps_are_the_files_that_a_stage_runs(
    stages: dict[str, Listed], runs: dict[str, set[str]], manifests: dict[str, str]
) -> None:
    assert len(runs) >= 150
    wrong = {name: differences(files, code_deps(stages[name], manifests)) for name, files in runs.items()}
    assert {name: files for name, files in wrong.items() if files} == {}


def test_a_missing_dep_and_an_extra_dep_are_found(
    stages: dict[str, Listed], runs: dict[str, set[str]], manifests: dict[str, str]
) -> None:
    name = "params.yaml: finetune@headlines"
    deps = code_deps(stages[name], manifests)
    loop, app = "pipelines/training/loop.py", "pipelines/serving/app.py"
    assert differences(runs[name], deps - {loop}) == {"missing": [loop]}
    assert differences(runs[name], deps | {app}) == {"too many": [app]}


def test_a_change_in_code_that_no_stage_runs_makes_no_stage_stale(manifests: dict[str, str]) -> None:
    listed = {file for text in manifests.values() for file in code_manifest.read(text)}
    assert len(listed) > 150
    for file in ("entries/promote.py", "entries/tune.py", "graph/checking.py", "serving/app.py"):
        assert (ROOT / "pipelines" / file).is_file()
        assert f"pipelines/{file}" not in listed


@pytest.fixture
def copy(checkout: Path) -> Path:
    shutil.copytree(ROOT / "pipelines", checkout / "pipelines", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "dvc.yaml", checkout / "dvc.yaml")
    return checkout


class OtherWords(ast.NodeTransformer):
    """Write other docstrings."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            node.value.value = "Other words."
        return node


def test_a_change_of_comments_docstrings_or_format_makes_no_stage_stale(copy: Path, manifests: dict[str, str]) -> None:
    """Every file is written anew from its syntax tree: on other lines, with other quotes, and without comments."""
    files = list((copy / "pipelines").rglob("*.py"))
    assert len(files) > 200
    for file in files:
        tree = OtherWords().visit(ast.parse(file.read_text(encoding="utf-8")))
        file.write_text(f"{ast.unparse(tree)}\n\n# a comment\n", encoding="utf-8")
    assert {path.as_posix(): text for path, text in code_manifest.manifests(copy).items()} == manifests


@pytest.mark.parametrize(
    "file", ["training/loop.py", "data/formats/archives.py", "compression/methods/pkd.py", "core/errors.py"]
)
def test_a_changed_statement_makes_the_stages_that_run_it_stale(
    file: str, copy: Path, manifests: dict[str, str]
) -> None:
    with (copy / "pipelines" / file).open("a") as opened:
        opened.write("\nMORE = 1\n")
    edited = {path.as_posix(): text for path, text in code_manifest.manifests(copy).items()}
    assert edited.keys() == manifests.keys()
    stale = {path for path, text in edited.items() if text != manifests[path]}
    assert stale == {path for path, text in manifests.items() if f"pipelines/{file}" in code_manifest.read(text)}
    assert len(stale) > 0
    if file == "compression/methods/pkd.py":
        assert stale == {"artifacts/code/methods/pkd.txt"}


STATEMENTS = '''
"""Words."""
import os  # a comment


@dataclass(frozen=True)
class Point:
    """Words."""

    x: float = 1.0
    """Words of x."""

    async def of(self, *rest, key=None, **more) -> "Point":
        """Words."""
        async with self as (a, b):
            return [y async for y in f"{a!r:>{b}} and" f" {{more}}" if y is not None]


match value:
    case {"a": [1, *_], **rest} if (n := len(rest)) > 2:
        print(b"\\x00", 0x10, 1_000, 1e3, 2j, "が", "a" "b", ..., -1, not n, lambda *a, b=2: a[1:2, ::3])
    case _:
        pass
'''
DIGEST = "f714ed0b50748c07eea3218e1427856d06fa6d12e3a55c15976fc79ff39c5b77"
SAME = {
    "a comment": ("import os  # a comment", "import os  # another"),
    "docstrings": ("Words.", "More."),
    "text after a value": ("Words of x", "More of x"),
    "quotes": ('"a" "b"', "'ab'"),
    "parentheses": ("-1, not n", "(-1), (not n)"),
    "numbers": ("0x10, 1_000, 1e3", "16, 1000, 1000.0"),
    "lines": ("import os  # a comment\n\n", "import os\n\n\n\n"),
}
OTHER = {
    "a value": ("1.0", "1"),
    "a type": ("x: float", "x: int"),
    "a default": ("key=None", "key=0"),
    "a name": ("*rest", "*others"),
    "a text that is read": ('"が"', '"か"'),
    "a format": ("{a!r:>", "{a!s:>"),
    "a decorator": ("frozen=True", "frozen=False"),
    "a sign": ("-1, not", "+1, not"),
    "an import": ("import os", "import os.path"),
}


@pytest.mark.parametrize("change", [*SAME, *OTHER])
def test_a_digest_covers_statements_only(change: str, tmp_path: Path) -> None:
    """The digest is written down here: it is the same by every Python."""
    before, after = (SAME | OTHER)[change]
    file = tmp_path / "file.py"
    file.write_text(STATEMENTS, encoding="utf-8")
    was = code_manifest.digest(file)
    assert was == DIGEST
    edited = tmp_path / "edited.py"
    edited.write_text(STATEMENTS.replace(before, after), encoding="utf-8")
    assert edited.read_bytes() != file.read_bytes()
    assert (code_manifest.digest(edited) == was) is (change in SAME)


def test_a_file_that_is_no_python_fails_in_one_sentence(copy: Path) -> None:
    file = copy / "pipelines/training/loop.py"
    file.write_text("def f(:\n")
    with pytest.raises(InputError, match=r"training/loop\.py: line 1: not valid Python \(invalid syntax"):
        code_manifest.manifests(copy)


def test_the_stage_writes_what_changed_and_says_so(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code_manifest.main()
    assert re.fullmatch(r"code: \d+ files\n", capsys.readouterr().err)
    times = {path: path.stat().st_mtime_ns for path in code_manifest.written()}
    (paths.CODE / "left.txt").touch()  # of an earlier version
    with (copy / "pipelines/compression/methods/pkd.py").open("a") as opened:
        opened.write("\nMORE = 1\n")
    code_manifest.main()
    assert capsys.readouterr().err.endswith(" files; pipelines/compression/methods/pkd.py changed\n")
    anew = {path for path in code_manifest.written() if path.stat().st_mtime_ns != times.pop(path)}
    assert anew == {paths.CODE / "methods/pkd.txt"}
    assert times == {}


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
    followed = closure("pipelines/a.py", tmp_path)
    a_b_c = {"pipelines/a.py", "pipelines/room/b.py", "pipelines/c.py"}
    plugins = {"pipelines/any/x.py", "pipelines/any/y.py"}
    assert set(followed.files) == a_b_c | plugins | {"pipelines/code/__init__.py", "pipelines/code/d.py"}
    assert [tuple(plugin) for plugin in followed.named] == [("pipelines.kinds", "kind")]
    assert followed.chain("pipelines/code/d.py") == ["pipelines/a.py", "pipelines/c.py", "pipelines/code/d.py"]


def test_a_plugin_that_is_not_there_is_named_with_those_that_are() -> None:
    stage = code_manifest.stages()["compress"]
    with pytest.raises(
        UsageError, match=r"^params\.yaml: compress\.x: no method 'dynamic_int' \(did you mean 'dynamic_int8"
    ):
        code_manifest.runs(stage, {"method": "dynamic_int"}, where="params.yaml: compress.x")


def test_a_change_of_resources_makes_no_stage_stale(stages: dict[str, Listed]) -> None:
    keys = {key for stage in stages.values() for key in stage.params}
    assert "finetune.headlines" in keys
    assert not any(key.startswith("resources") for key in keys)


def test_every_plugin_that_an_entry_names_is_a_dep_of_its_own() -> None:
    named = {(plugin.package, plugin.key) for stage in code_manifest.stages().values() for plugin in stage.named}
    assert named == {
        ("pipelines.data.corpora", "corpus"),
        ("pipelines.text.tokenizers", "tokenizer"),
        ("pipelines.objectives", "objective"),
        ("pipelines.compression.methods", "method"),
    }


@pytest.mark.parametrize("file", ["params.yaml", *sorted(path.name for path in (ROOT / "params").iterdir())])
def test_dvc_can_rewrite_params(file: str, checkout: Path) -> None:
    """As `dvc exp run --set-param` does, in its own round trip, which loses quotes between braces."""
    source = next(path for path in (ROOT / file, ROOT / "params" / file) if path.is_file())
    shutil.copyfile(source, "params.yaml")
    before = load_yaml("params.yaml")
    with modify_yaml("params.yaml") as values:
        values["resources"]["threads"] = 1
    assert load_yaml("params.yaml") == before | {"resources": before["resources"] | {"threads": 1}}
