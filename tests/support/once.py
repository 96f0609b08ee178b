"""Folders that take seconds to make: made once in a run of the tests, whichever of its processes is first."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def made(places: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder that `make` fills. All tests see the same one: who writes into it takes a copy."""
    base = places.getbasetemp()
    # processes of pytest-xdist have folders of their own below the run's
    root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = root / f"once-{name}"
    with FileLock(root / f".once-{name}.lock"):
        if not folder.exists():
            partial = root / f".once-{name}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            make(partial)
            partial.rename(folder)
    return folder


def copied(source: Path, target: Path) -> Path:
    """A copy of such a folder, to write into."""
    return Path(shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True))
