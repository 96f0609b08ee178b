"""Stages in a folder with an odd name, under a strict umask and a C locale: their files are those of any place."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import copy_project

pytestmark = pytest.mark.slow
STAGES = ("ingest livedoor-samples", "prepare headlines", "encode headlines", "baseline headlines-svm")


def artifacts(place: Path, umask: int, **environment: str) -> dict[str, bytes]:
    """The files that the stages make in a new workspace."""
    place.mkdir()
    copy_project(place)
    for stage in STAGES:
        command = [sys.executable, "-m", *f"pipelines.stages.{stage}".split()]
        variables = os.environ | {"PYTHONPATH": str(place)} | environment
        subprocess.run(command, cwd=place, env=variables, umask=umask, check=True)
    files = [file for file in (place / "artifacts").rglob("*") if file.is_file() and file.parent.name != "timings"]
    return {str(file.relative_to(place)): file.read_bytes() for file in files}


def test_the_place_and_the_user_change_no_file(checkout: Path) -> None:
    plain = artifacts(checkout / "plain", 0o022)
    odd = artifacts(checkout / "a \"b\" 'c' 犬", 0o077, LC_ALL="C", PYTHONUTF8="0")
    assert len(plain) > 8
    assert odd == plain
