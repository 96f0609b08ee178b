"""Paths: this checkout, and the mirror of the corpora, which not every machine has."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = ROOT / "pipelines" / "serving" / "registered.py"  # the code that opens a registered model
MIRROR = Path(os.environ.get("BERTLINE_MIRROR", ROOT.parent / "shared" / "mirror"))
needs_mirror = pytest.mark.skipif(not MIRROR.is_dir(), reason="no mirror of the corpora: set BERTLINE_MIRROR")
_MADE: list[tuple[int, str]] = []


def temporary(prefix: str) -> Path:
    """A new folder; the test process removes it at its end."""
    _MADE.append((os.getpid(), tempfile.mkdtemp(prefix=prefix)))
    return Path(_MADE[-1][1])


def remove_temporary() -> None:
    """Remove the folders that this process made; a forked child has the list too, but must not remove them."""
    for made_by, folder in _MADE:
        if made_by == os.getpid():
            shutil.rmtree(folder, ignore_errors=True)
