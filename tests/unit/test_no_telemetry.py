"""Telemetry is off before a library that has some is imported, through whichever door a process comes in."""

import json
import os
import subprocess
import sys

import pytest

from pipelines import NO_TELEMETRY
from tests.support.places import ROOT

LIBRARIES = ("dvc", "huggingface_hub", "mlflow", "onnxruntime", "prefect", "ray")
WATCH = """
import importlib, json, os, sys
from importlib.abc import MetaPathFinder

class Watch(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in LIBRARIES:
            seen.append([name, {variable: os.environ.get(variable) for variable in VARIABLES}])

LIBRARIES, VARIABLES, doors = json.loads(sys.argv[1])
seen = []
sys.meta_path.insert(0, Watch())
for door in doors:
    importlib.import_module(door)
print(json.dumps(seen))
"""


@pytest.mark.parametrize(
    ("doors", "library"),
    [
        (("flows.cli.command", "flows.promote"), "prefect"),
        (("bertline", "pipelines.tracking.registry"), "mlflow"),
        (("pipelines.stages.evaluate", "onnxruntime"), "onnxruntime"),
        (("pipelines.serving.ray_service",), "ray"),
    ],
)
def test_telemetry_is_off_when_a_library_is_imported(doors: tuple[str, ...], library: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in NO_TELEMETRY}
    arguments = json.dumps([LIBRARIES, list(NO_TELEMETRY), doors])
    printed = subprocess.run(
        [sys.executable, "-c", WATCH, arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    ).stdout
    seen = dict(json.loads(printed.splitlines()[-1]))
    assert library in seen
    assert all(variables == NO_TELEMETRY for variables in seen.values()), seen
