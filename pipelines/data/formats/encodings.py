"""The encoding of a text file: one of several that its bytes read as, and its lines as UTF-8."""

import codecs
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType

from pipelines.core.errors import InputError, UnreadableError

UTF_8 = "utf-8"
SAMPLE_BYTES = 1 << 20  # the part of a file by which its encoding is told
MARKS = ((codecs.BOM_UTF8, UTF_8), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
JAPANESE = ("cp932", "euc-jp")
WESTERN = "cp1252"
GUESSED = (*JAPANESE, WESTERN)
MANY = 0.4  # share of bytes beyond ASCII from which a text is no Western one
KANA = re.compile("[ぁ-んァ-ヶー、。]")
RARE = re.compile("[\uff61-\uff9f\ue000-\uf8ff]")  # half-width katakana, private use: EUC-JP that is read as cp932


class _Recoded:
    """A file in any encoding, whose lines are read as UTF-8."""

    def __init__(self, path: Path, encoding: str) -> None:
        self._path, self._encoding, self._number = path, encoding, 0
        self._file = path.open(encoding=encoding, newline="\n")

    def readline(self, limit: int) -> bytes:
        """The next line, of at most `limit` characters. Raises UnreadableError if it is not in the encoding."""
        self._number += 1
        try:
            return self._file.readline(limit).encode()
        except UnicodeError:  # the file is decoded in blocks, so the error may lie some lines further on
            place = f"{self._path}: line {self._number} or a later one"
            raise UnreadableError(self._path, place, self._encoding) from None

    def __enter__(self) -> "_Recoded":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()


def opener(encoding: str) -> Callable[[Path], _Recoded] | None:
    """A function that opens a file in this encoding as lines of UTF-8; None for UTF-8, which needs no other."""
    return None if codecs.lookup(encoding).name == UTF_8 else partial(_Recoded, encoding=encoding)


def known(name: str) -> bool:
    """Return whether Python has a text encoding of this name."""
    try:
        b"a\n".decode(name, errors="ignore")
    except (LookupError, UnicodeError, ValueError):
        return False
    return True


def reads_as(path: Path) -> str:
    """The encoding that a file reads as; "" if it is none of those that are common in Japan and the West.

    It is told by the first MiB, or by the first one that is not ASCII. It is a guess for a file without a byte order
    mark that is not UTF-8: cp932 and EUC-JP are told apart by their kana.
    """
    with path.open("rb") as file:
        content = file.read(SAMPLE_BYTES)
        while not _tells(content) and (more := file.read(SAMPLE_BYTES)):
            content = more
    for mark, name in MARKS:
        if content.startswith(mark):
            return name
    if zeros := content.count(0):  # Latin letters, digits and line ends have a zero byte in UTF-16
        odd = content[1::2].count(0)
        if zeros > len(content) / 50:
            return "utf-16-le" if odd > zeros - odd else "utf-16-be"
        return UTF_8 if _text(content, UTF_8) is not None else ""  # its reader names the line of the zero byte
    if b"\x1b$" in content and _text(content, "iso2022_jp") is not None:
        return "iso2022_jp"
    if _text(content, UTF_8) is not None:
        return UTF_8
    texts = {name: text for name in JAPANESE if (text := _text(content, name)) is not None}
    likeliest = max(texts, key=lambda name: _likeness(texts[name]), default="")
    beyond = sum(byte > 127 for byte in content) / len(content)
    if likeliest and (beyond > MANY or KANA.search(texts[likeliest])):
        return likeliest
    if beyond < MANY and _text(content, WESTERN) is not None:
        return WESTERN
    return likeliest  # such as a Japanese header above English cells


def _tells(content: bytes) -> bool:
    """Return whether the bytes of a file are more than ASCII, which begins a file of many encodings."""
    return not content.isascii() or 0 in content or b"\x1b$" in content


def shared(files: Sequence[Path]) -> str:
    """The encoding of all files; those in ASCII have that of the others. Raises InputError if there are two.

    A short text is guessed by little, so a guess gives way to that of most files if the text can be read in it.
    """
    names = {file: reads_as(file) for file in files}
    telling = [file for file in files if names[file] != UTF_8 or not file.read_bytes().isascii()]
    if not telling:
        return UTF_8
    ((name, _),) = Counter(names[file] for file in telling).most_common(1)
    first = next(file for file in telling if names[file] == name)
    for file in telling:
        if not names[file]:
            raise InputError(f"{file}: its bytes are no text in a known encoding; save it as UTF-8")
        is_guess = {names[file], name} <= {*GUESSED} and _text(file.read_bytes(), name) is not None
        if names[file] != name and not is_guess:
            raise InputError(f"{file}: its encoding is not that of {first}; save all files as UTF-8")
    if name.startswith("utf-16") and len(telling) < len(files):
        raise InputError(f"{first}: its encoding is {name}, others are in ASCII; save all files as UTF-8")
    return name


def _text(content: bytes, name: str) -> str | None:
    """The text of these bytes; None if they are not in this encoding. The last character may be cut off."""
    try:
        return codecs.getincrementaldecoder(name)().decode(content, final=len(content) < SAMPLE_BYTES)
    except UnicodeError:
        return None


def _likeness(text: str) -> int:
    return len(KANA.findall(text)) - 2 * len(RARE.findall(text))
