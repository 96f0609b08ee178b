"""The commit that a version is stamped with: an edit is a change of code or params, not of what was made of them."""

import subprocess
from pathlib import Path

import pytest

from flows.local import code_commit
from pipelines.lifecycle import registration
from tests.support.places import ROOT

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


def image_commit() -> str:
    """The commit that `make image` hands to the build here."""
    command = ["make", "--silent", "--file", ROOT / "Makefile", "image", "ENGINE=echo"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (commit,) = [word.removeprefix("COMMIT=") for word in done.stdout.split() if word.startswith("COMMIT=")]
    return commit


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("name", FILES)
def test_an_image_of_an_edited_checkout_says_so(name: str) -> None:
    clean = registration.git_commit()["git_commit"]
    assert image_commit() == clean
    Path(name).write_text("another\n")
    assert image_commit() == clean + ("-dirty" if name in registration.CODE_AND_PARAMS or "/" in name else "")


@pytest.mark.usefixtures("checkout")
def test_what_runs_in_an_image_has_the_commit_of_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    assert registration.git_commit("abc") == {"git_commit": "abc"}
    assert registration.git_commit("abc-dirty") == {"git_commit": "abc", "git_dirty": "true"}
    for commit in ("abc", "abc-dirty", ""):
        monkeypatch.setenv("BERTLINE_COMMIT", commit)
        assert code_commit.current() == commit
