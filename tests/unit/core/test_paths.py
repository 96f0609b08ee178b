"""Partial output never looks finished."""

import threading
from pathlib import Path

import pytest

from pipelines.core import paths
from pipelines.core.errors import InputError


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


def test_a_link_to_a_folder_elsewhere_is_replaced_again_and_again(tmp_path: Path) -> None:
    (tmp_path / "large-disk").mkdir()
    (tmp_path / "large-disk/a").write_text("0")
    target = tmp_path / "out"
    target.symlink_to(tmp_path / "large-disk")
    for number in ("1", "2"):
        with paths.fresh_folder(target) as out:
            (out / "a").write_text(number)
        assert (target / "a").read_text() == number
    assert sorted(p.name for p in tmp_path.iterdir()) == ["large-disk", "out"]
    assert (tmp_path / "large-disk/a").read_text() == "0"


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


def test_a_second_writer_is_refused_until_the_first_one_ends(tmp_path: Path) -> None:
    for fresh, target in ((paths.fresh_folder, tmp_path / "folder"), (paths.fresh_file, tmp_path / "file")):
        with fresh(target) as first:
            with pytest.raises(InputError, match=f"{target.name}: another process is writing it"), fresh(target):
                raise AssertionError
            assert first.exists(), "the refused one took nothing away"
            if first.is_file():
                first.write_text("whole")
        with fresh(target) as again:
            assert again.exists()


def test_what_a_killed_writer_left_is_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / ".folder.partial/inner").mkdir(parents=True)
    (tmp_path / ".folder.partial/of-the-killed").write_text("x")
    (tmp_path / ".file.partial").write_text("of the killed, and longer")
    with paths.fresh_folder(tmp_path / "folder") as out:
        assert list(out.iterdir()) == []
    with paths.fresh_file(tmp_path / "file") as aside:
        assert aside.read_text() == ""
        aside.write_text("new")
    assert (tmp_path / "file").read_text() == "new"


def test_a_kill_between_the_two_renames_loses_nothing(tmp_path: Path) -> None:
    """Then the folder has its old name aside, and none in place."""
    (tmp_path / ".folder.old").mkdir()
    (tmp_path / ".folder.old/kept").write_text("x")
    with pytest.raises(RuntimeError), paths.fresh_folder(tmp_path / "folder"):
        raise RuntimeError
    assert (tmp_path / "folder/kept").read_text() == "x"
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


def test_writers_that_race_leave_one_whole_folder(tmp_path: Path) -> None:
    """Eight threads; each either writes all of its folder or is refused."""
    target, wrong = tmp_path / "folder", []

    def write(number: int) -> None:
        for _ in range(40):
            try:
                with paths.fresh_folder(target) as out:
                    for name in "abc":
                        (out / name).write_text(str(number))
            except InputError:
                continue
            except OSError as error:
                wrong.append(error)

    threads = [threading.Thread(target=write, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len({(target / name).read_text() for name in "abc"}) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("name", ["/etc/passwd", "../out", "a/../../out", "link/out", "circle/a", "a\0b", "a" * 300])
def test_a_name_that_others_wrote_stays_below_its_folder(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    (folder / "circle").symlink_to("circle")
    if len(name) < 300:
        with pytest.raises(InputError, match="lies outside this folder"):
            paths.below(folder, name)
    else:  # no file can have the name, and none is opened by it here
        assert paths.below(folder, name).name == name
    assert paths.below(folder, "a/b.c") == folder / "a/b.c"
    assert paths.below(folder, "a/../b") == folder / "a/../b"


def test_a_link_of_a_strangers_folder_copies_no_file_from_elsewhere(tmp_path: Path) -> None:
    folder, target = tmp_path / "cache/snapshots/1", tmp_path / "copied"
    folder.mkdir(parents=True)
    (tmp_path / "credentials").write_text("secret")
    for link in (tmp_path / "credentials", Path("../../../credentials")):
        (folder / "vocab.txt").symlink_to(link)
        with pytest.raises(InputError, match=r"1/vocab.txt: a link to a file outside of this folder; put the file in"):
            paths.copy(folder, "vocab.txt", target)
        (folder / "vocab.txt").unlink()
    assert not target.exists()
    hub, dvc = tmp_path / "cache/blobs" / ("0a" * 20), tmp_path / ".dvc/cache/files/md5/0a" / ("1b" * 15)
    for number, content in enumerate((hub, dvc, folder / "whole.txt")):
        content.parent.mkdir(parents=True, exist_ok=True)
        content.write_text(f"{number}")
        (folder / f"{number}.txt").symlink_to(content)
        paths.copy(folder, f"{number}.txt", target)
        assert target.read_text() == f"{number}"
        assert not target.is_symlink()
