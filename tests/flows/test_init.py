"""`bertline init`: a project of one's own, outside the checkout, in which new, check, run and a second clone work."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support import commands, tickets
from tests.support.places import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
IDENTITY = {f"GIT_{role}_{part}": "test@example.org" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}


def shell(line: str, place: Path) -> str:
    """The output of a command in a project; of one that fails, an error with all that it printed."""
    environment = os.environ | IDENTITY | {"PATH": f"{ROOT / '.venv/bin'}:{os.environ['PATH']}"}
    ended = subprocess.run(
        ["bash", "-ec", line], cwd=place, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_a_project_of_ones_own_prepares_rows_and_a_clone_pulls_them(tmp_path: Path) -> None:
    shell("bertline init own && cd own && git commit -qm begin", tmp_path)
    project = tmp_path / "own"
    assert not {"pipelines", "flows", "samples"} & {path.name for path in project.iterdir()}
    assert all(value == {} for value in yaml.safe_load((project / "params.yaml").read_text()).values())
    tickets.write(project / "tickets.csv", "en", "cp932", ";")
    shell("bertline new tickets.csv --yes && bertline check", project)
    first = shell("bertline run encode@tickets", project)
    assert "nothing to do" not in first
    assert "nothing to do" in shell("bertline run encode@tickets", project)
    assert "up to date" in shell("dvc status encode@tickets", project)
    assert "up to date" in shell("bertline why encode@tickets", project)
    assert "prepare@tickets" in (project / "dvc.lock").read_text()
    shell("git add . && git commit -qm tickets && dvc push -q encode@tickets prepare@tickets", project)

    shell("git clone -q own second && cd second && dvc pull -q encoders encode@tickets prepare@tickets", tmp_path)
    second = tmp_path / "second"
    files = [path.relative_to(project) for path in (project / "artifacts/encoded").rglob("*.parquet")]
    assert files
    assert all((second / file).read_bytes() == (project / file).read_bytes() for file in files)
    assert "nothing to do" in shell("bertline run encode@tickets", second)


def test_a_folder_with_files_is_refused(checkout: Path) -> None:
    (checkout / "old").mkdir()
    (checkout / "old/notes.txt").touch()
    assert "old: not empty; name a new folder" in commands.bertline("init old").require(1).err
    assert [*(checkout / "old").iterdir()] == [checkout / "old/notes.txt"]
