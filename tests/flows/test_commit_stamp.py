"""The commit that a version is stamped with: an edit is a change of code or params, not of what was made of them."""

import subprocess
from pathlib import Path

import pytest

from pipelines.lifecycle import registration

FILES = ("flows/a.py", "pipelines/b.py", "dvc.yaml", "params.yaml", "README.md")


@pytest.fixture
def repository(checkout: Path) -> Path:
    for name in FILES:
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("as committed\n")
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"],
    ):
        subprocess.run(["git", *command], check=True)
    return checkout


@pytest.mark.usefixtures("repository")
def test_files_that_a_run_writes_are_no_edit() -> None:
    Path("dvc.lock").write_text("stages: {}\n")
    Path("scored.csv").touch()
    Path("README.md").write_text("other words\n")
    assert registration.git_commit()["git_dirty"] == "false"


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("name", [*FILES[:4], "pipelines/new.py"])
def test_a_change_of_code_or_params_is_an_edit(name: str) -> None:
    Path(name).write_text("another\n")
    assert registration.git_commit()["git_dirty"] == "true"
    assert len(registration.git_commit()["git_commit"]) == 40
