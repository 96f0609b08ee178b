"""The code stored with a registered version: what is needed to open it, and nothing else."""

import ast
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import mlflow
import pytest
from packaging.requirements import Requirement

from pipelines.graph import import_closure
from pipelines.lifecycle import registration
from pipelines.tracking import registry
from tests.support import exported, stores

pytestmark = pytest.mark.slow
RESTORED = """
import json, sys, mlflow
opened = mlflow.pyfunc.load_model("models:/both/1", model_config={"runtime": RUNTIME})
said = opened.predict([{"text": "犬"}])
ours = [module.__file__ for name, module in sorted(sys.modules.items()) if name.startswith("pipelines.")]
print(json.dumps([len(said), ours]))
"""


def test_a_version_brings_the_code_and_names_the_packages_that_it_needs(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The version is opened without the checkout, as in a restored environment."""
    stores.place_in(checkout)
    made = exported.classifier(tmp_path_factory)
    code = import_closure.copy(registration.CODE, checkout / "code")
    registry.register("both", made / "model", code, "single", {"text": "犬"}, {"run": "tiny"}, made / "onnx")
    (checkout / "elsewhere").mkdir()
    opened = {runtime: _opened_elsewhere(runtime, checkout) for runtime in ("torch", "onnx")}
    for count, files in opened.values():
        assert count == 1
        assert len(files) > 20
        assert all(Path(file).is_relative_to(checkout / "state/mlflow") for file in files)
    assert not (_code(checkout) / "pipelines/compression").exists(), "it brings what opens it, and no more"
    files = opened["onnx"][1]
    (requirements,) = (checkout / "state").rglob("requirements.txt")
    there = {Requirement(line).name for line in requirements.read_text().split()}
    packages = metadata.packages_distributions()
    asked = {name for file in files for name in _imported(Path(file)) if name in packages and name != "pipelines"}
    assert {"numpy", "pyarrow", "tokenizers"} <= asked
    assert [name for name in asked if there.isdisjoint(packages[name])] == []
    mlflow.set_tracking_uri(None)


def _opened_elsewhere(runtime: str, checkout: Path) -> tuple[int, list[str]]:
    """Open the version in a process without the checkout; returns the rows predicted, and the project's files used."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code = f"import sys; sys.path.insert(0, '{_code(checkout)}')\nRUNTIME = '{runtime}'\n{RESTORED}"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, env=environment, cwd=checkout / "elsewhere", capture_output=True
    )
    count, files = json.loads(done.stdout.splitlines()[-1])
    return count, files


def _code(checkout: Path) -> Path:
    (package,) = (checkout / "state").rglob("code/pipelines")
    return package.parent


def _imported(file: Path) -> set[str]:
    """The packages that a file imports at its top level."""
    found = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found
