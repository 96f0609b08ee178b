"""Where things are: this checkout, and the mirror of the corpora, which a machine may have or not."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = ROOT / "pipelines" / "serving" / "registered.py"  # what a registered model is served by
MIRROR = Path(os.environ.get("BERTLINE_MIRROR", ROOT.parent / "shared" / "mirror"))
needs_mirror = pytest.mark.skipif(not MIRROR.is_dir(), reason="no mirror of the corpora: set BERTLINE_MIRROR")
