"""The Python door is typed for a user's program: mypy knows what its functions return."""

import subprocess
import sys
import venv
from pathlib import Path

from tests.support.places import ROOT

PROGRAM = """
import bertline

model = bertline.load("folder")
(first, *_) = model.fill_mask("[MASK]")[0]
rows = [[guess.piece for guess in masks[0]] for masks in model.fill_mask(["[MASK]"])]
names: tuple[str, ...] = model.labels
change: float = model.explain("text").words[0].change
score: float | None = bertline.train([{"text": "a", "label": "b"}]).report.dev_score
try:
    first.nothing
except bertline.InputError:
    raise SystemExit(f"{first.piece} {first.probability}")
"""


def test_a_program_has_types_from_an_installed_bertline(tmp_path: Path) -> None:
    """py.typed counts only for packages that are installed."""
    venv.create(tmp_path / "venv", with_pip=False)
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    for package in ("bertline", "pipelines"):
        (site / package).symlink_to(ROOT / package)
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--python-executable"]
    done = subprocess.run(
        [*command, tmp_path / "venv/bin/python", "program.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [
        'program.py:11: error: "Guess" has no attribute "nothing"  [attr-defined]',
        "Found 1 error in 1 file (checked 1 source file)",
    ], done.stderr
