"""What a hostile archive could do is refused."""

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from pipelines.core.errors import InputError
from pipelines.data.formats import archives


def archive(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def link(name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return info


@pytest.mark.parametrize("name", ["../up", "/root", "a/../../b"])
def test_a_name_that_leaves_the_tree_is_refused(name: str, tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar.gz", (tarfile.TarInfo(name), b"x"))
    with pytest.raises(InputError, match="would leave"):
        list(archives.tar_files(path))


def test_a_link_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="link or a device"):
        list(archives.tar_files(archive(tmp_path / "a.tar.gz", (link("a"), b""))))


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_WHOLE_BYTES", 10)
    with pytest.raises(InputError, match="refused"):
        list(archives.tar_files(archive(tmp_path / "a.tar.gz", (tarfile.TarInfo("a"), b"x" * 11))))


@pytest.mark.parametrize("size", [0, 10, 60])
def test_a_cut_archive_fails_in_one_sentence(size: int, tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar.gz", (tarfile.TarInfo("a"), bytes(range(256)) * 50))
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InputError, match=r"not a complete tar archive|is empty"):
        list(archives.tar_files(path))


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_a_header_that_is_larger_than_memory_is_refused_unread(kind: bytes, tmp_path: Path) -> None:
    """Zeros pack a thousandfold: 4 GB of a long name are 4 MB of an archive."""
    header = tarfile.TarInfo("a")
    header.type, header.size = kind, 4 << 30
    path = tmp_path / "a.tar.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(header.tobuf(tarfile.GNU_FORMAT))
        file.write(bytes(8 << 20))
    with pytest.raises(InputError, match=r"a header of 4,294,967,296 bytes; at most 1,048,576 are read; the"):
        list(archives.tar_files(path))
