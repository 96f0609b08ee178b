"""docs/adding.md is true: its files are written and its commands run, in their order."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.core import tables
from tests.conftest import ROOT

BLOCK = re.compile(r"^```(\w+) ?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_a_corpus_of_ones_own_is_added_as_the_page_says(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "pipelines", "pipelines", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    blocks = BLOCK.findall((ROOT / "docs" / "adding.md").read_text(encoding="utf-8"))
    assert [language for language, _, _ in blocks] == ["csv", "csv", "yaml", "sh", "sh", "text"]
    output = ""
    for language, what, content in blocks:
        if language == "sh":
            done = subprocess.run(["sh", "-e", "-c", content], capture_output=True, text=True, check=False)
            assert (done.returncode != 0) == (what == "fails"), done.stderr
            output = done.stderr
        elif language == "text":
            assert content == output
        else:
            Path(what).parent.mkdir(exist_ok=True)
            Path(what).write_text(content, encoding="utf-8")
    assert tables.read(Path("artifacts/rows/reviews/test.parquet")).num_rows == 2
    assert tables.read(Path("artifacts/encoded/reviews/train.parquet")).num_rows == 6
