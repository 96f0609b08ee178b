"""Read archives member by member without unpacking them; malicious archives are refused."""

import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Self, cast

from pipelines.core.errors import InputError, choices

MAX_MEMBERS = 200_000
MAX_MEMBER_BYTES = 1 << 30  # of a member of a zip, which is read line by line
MAX_WHOLE_BYTES = 64 << 20  # of a member of a tar, which is read whole
MAX_TOTAL_BYTES = 8 << 30
MAX_HEADER_BYTES = 1 << 20  # of a header for long names and other facts, which tarfile reads whole
FACTS = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)


class _Header(tarfile.TarInfo):
    """A member's header; one that is larger than MAX_HEADER_BYTES is refused before its content is read."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)
        if header.type in FACTS and header.size > MAX_HEADER_BYTES:
            raise _HeaderError(f"a header of {header.size:,} bytes; at most {MAX_HEADER_BYTES:,} are read")
        return header


class _HeaderError(Exception):
    pass


def tar_files(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the regular files of a tar archive of any compression, in the archive's order.

    Nothing is written to disk. Raises InputError for names outside of the archive's tree, links and devices, for too
    many or too large members, and for an incomplete archive.
    """
    total = count = 0
    try:
        with tarfile.open(archive, "r|*", tarinfo=_Header) as tar:
            for member in tar:
                count += 1
                total += member.size
                _refuse(archive, member, count, total)
                if member.isfile():
                    file = tar.extractfile(member)
                    assert file is not None, member.name
                    yield member.name.removeprefix("./"), file.read()
    except _HeaderError as error:
        raise InputError(f"{archive}: {error}; the archive is refused") from None
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise InputError(f"{archive}: not a complete tar archive ({error}); fetch it again") from None
    if not count:
        raise InputError(f"{archive}: the archive is empty")


def zip_member(name: str) -> Callable[[Path], BinaryIO]:
    """A function that opens the member `name` of a zip archive without unpacking it."""

    def opened(archive: Path) -> BinaryIO:
        try:
            with zipfile.ZipFile(archive) as zip_file:  # the member keeps the file open
                info = zip_file.getinfo(name)
                if info.file_size > MAX_MEMBER_BYTES:
                    raise InputError(f"{archive}: {name} is larger than {MAX_MEMBER_BYTES >> 30} GiB; it is refused")
                return cast(BinaryIO, zip_file.open(info))
        except KeyError:
            raise InputError(f"{archive}: {choices('member', name, zip_file.namelist())}") from None
        except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError) as error:
            raise InputError(f"{archive}: not a complete zip archive ({error}); fetch it again") from None

    return opened


def _refuse(archive: Path, member: tarfile.TarInfo, count: int, total: int) -> None:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts:
        raise InputError(
            f"{archive}: the member {member.name!r} would leave the archive's tree; the archive is refused"
        )
    if not (member.isfile() or member.isdir()):
        raise InputError(f"{archive}: the member {member.name!r} is a link or a device; the archive is refused")
    if member.size > MAX_WHOLE_BYTES or total > MAX_TOTAL_BYTES or count > MAX_MEMBERS:
        raise InputError(
            f"{archive}: more than {MAX_MEMBERS:,} members, {MAX_WHOLE_BYTES >> 20} MiB in one or "
            f"{MAX_TOTAL_BYTES >> 30} GiB in all; the archive is refused"
        )
