"""`bertline init`: the commands that make a project, without running them."""

from pathlib import Path

import pytest

from pipelines.graph import new_project


def test_a_folder_may_have_a_space_in_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(new_project._Run, "__call__", lambda _, *command: commands.append(command))
    assert list(new_project.create(tmp_path / "my tickets", tmp_path / "my tickets.remote"))
    assert ("dvc", "remote", "add", "--default", "local", "../my tickets.remote", "--quiet") in commands
