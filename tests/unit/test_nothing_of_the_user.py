"""Tests see no settings of the person who runs them: neither variables of bertline nor Git's configuration."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import READ_BY_TESTS, of_the_user
from tests.support.places import ROOT

READS = re.compile(r'environ(?:\.get\(|\[)"(BERTLINE_\w+)"(?:, [^)]+\))')  # with a value for where it is not set


def test_variables_that_no_test_reads_are_taken_out() -> None:
    named = ["BERTLINE_SERVICE", "BERTLINE_SERVICE_KEY", "BERTLINE_NOTIFY", "BERTLINE_KEYS", "BERTLINE_LOG_FORMAT"]
    assert of_the_user([*named, *READ_BY_TESTS, "PATH", "MLFLOW_TRACKING_URI"]) == named
    read = {name for file in (ROOT / "tests").rglob("*.py") for name in READS.findall(file.read_text("utf-8"))}
    assert read == READ_BY_TESTS
    assert of_the_user(os.environ) == ["BERTLINE_QUIET"], "which the tests set themselves"


def test_a_commit_of_a_test_is_not_signed(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout / ".gitconfig").write_text("[commit]\n\tgpgsign = true\n[core]\n\texcludesFile = everything\n")
    monkeypatch.setenv("HOME", str(checkout))
    for name in ("commit.gpgsign", "core.excludesFile"):
        assert subprocess.run(["git", "config", name], capture_output=True, check=False).stdout == b""
