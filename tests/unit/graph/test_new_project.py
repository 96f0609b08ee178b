"""`bertline init`: the commands that make a project, without running them."""

from pathlib import Path

import pytest

from pipelines.core.errors import InputError, UsageError
from pipelines.graph import new_project


def test_a_folder_may_have_a_space_in_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(new_project._Run, "__call__", lambda _, *command: commands.append(command))
    assert list(new_project.create(tmp_path / "my tickets", tmp_path / "my tickets.remote"))
    assert ("dvc", "remote", "add", "--default", "local", "../my tickets.remote") in commands


def test_the_default_remote_has_a_name_that_dvc_can_write(tmp_path: Path) -> None:
    assert new_project.default_remote(tmp_path / "tickets") == tmp_path / "tickets.remote"
    assert new_project.default_remote(tmp_path / "プロジェクト") == tmp_path / "bertline.remote"
    (tmp_path / "bertline.remote").mkdir()
    assert new_project.default_remote(tmp_path / "プロジェクト") == tmp_path / "bertline-2.remote"


def test_the_folder_may_be_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tickets").mkdir()
    monkeypatch.chdir(tmp_path / "tickets")
    assert new_project.default_remote(Path("/")).parent == Path("/")
    assert list(new_project.create(Path(), new_project.default_remote(Path())))
    assert (tmp_path / "tickets.remote").is_dir()


def test_a_remote_that_dvc_cannot_write_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"遠隔: DVC can write ASCII .* is \.\./遠隔; name another folder"):
        list(new_project.create(tmp_path / "tickets", tmp_path / "遠隔"))
    assert not list(tmp_path.iterdir())


def test_a_project_and_its_remote_may_lie_in_a_folder_of_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "仕事" / "プロジェクト"
    assert list(new_project.create(folder, new_project.default_remote(folder)))
    assert "url = ../../bertline.remote" in (folder / ".dvc/config").read_text()


def test_the_error_of_dvc_is_in_the_message(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="dvc push: ERROR: you are not inside of a DVC repository"):
        new_project._Run(tmp_path)("dvc", "push")
