"""Partial output never looks finished."""

from pathlib import Path

import pytest

from pipelines.core import paths


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with paths.fresh_folder(target) as out:
        (out / "a").write_text("1")
        assert not target.exists()
    assert (target / "a").read_text() == "1"
    with pytest.raises(RuntimeError), paths.fresh_folder(target) as out:
        (out / "a").write_text("2")
        raise RuntimeError
    assert (target / "a").read_text() == "1"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with pytest.raises(RuntimeError), paths.fresh_file(target) as aside:
        aside.write_text("new")
        raise RuntimeError
    assert target.read_text() == "old"
    with paths.fresh_file(target) as aside:
        aside.write_text("new")
    assert target.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
