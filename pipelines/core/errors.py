"""The errors that a user can cause; every other error is a bug and shows its traceback."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unicodedata import category

MAX_NAME, MAX_NAMES = 60, 50  # characters of a name, and number of names, in a message
MOST_LINES, MOST_LISTED = 20, 5  # findings with a line each, and in one sentence
MAX_PRINTED = 1200  # characters of the message of an error that ends a command
STEERS = ("Cc", "Cf", "Cs", "Zl", "Zp")  # Unicode categories: control, format, surrogate, line and paragraph separator


class InputError(ValueError):
    """An input of the program is wrong: a file, a row, a model folder. Exit status 1."""

    exit_status = 1


class UsageError(InputError):
    """Something that a user wrote is wrong: a key of params.yaml, an argument. Exit status 2."""

    exit_status = 2


class NoFileError(InputError):
    """A file that the program must read does not exist."""


class BeingWrittenError(InputError):
    """Another process writes the same file or folder."""

    def __init__(self, target: object) -> None:
        super().__init__(f"{target}: another process is writing it; wait until it ends, or stop it")


class UnreadableError(InputError):
    """A text file is not in the encoding that it is read in."""

    def __init__(self, path: Path, place: str, encoding: str = "UTF-8") -> None:
        super().__init__(f"{place} is not {encoding}; convert the file to UTF-8")
        self.path, self.place, self.encoding = path, place, encoding


class RowError(InputError):
    """One of several rows is wrong; `row` counts from the first of them, as the message does."""

    def __init__(self, column: str, row: int, why: str) -> None:
        super().__init__(f"{column}: row {row} {why}")
        self.column, self.row, self.why = column, row, why

    def after(self, rows: int) -> "RowError":
        """The same error with so many rows before these."""
        return RowError(self.column, self.row + rows, self.why)


class FindingsError(InputError):
    """One or several findings about the same input; a stage that fails prints a line for each of the first."""

    def __init__(self, findings: Sequence[str], exit_status: int = InputError.exit_status) -> None:
        self.findings, self.exit_status = list(findings), exit_status
        super().__init__("; ".join(self.lines()))

    def lines(self) -> list[str]:
        """The first findings; if there are several, with a line that counts them."""
        if len(self.findings) == 1:
            return self.findings
        count, most = len(self.findings), MOST_LINES
        counted = f"{count:,} findings" + (f"; the first {most} are above" if count > most else " in all")
        return [*self.findings[:most], counted]


def listed(findings: Sequence[str]) -> str:
    """The first findings in one sentence, and the number of the others."""
    more = f"; and {len(findings) - MOST_LISTED:,} more" if len(findings) > MOST_LISTED else ""
    return "; ".join(findings[:MOST_LISTED]) + more


def printable(text: str, keep: str = "") -> str:
    """`text` with control characters, line ends and changes of text direction written as JSON escapes.

    Text from a ledger, a tag or a log is printed this way, so that it cannot control the terminal. The characters in
    `keep` stay as they are.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(json.dumps(c)[1:-1] if c not in keep and category(c) in STEERS else c for c in text)


def one_line(error: Exception | str, most: int = 200) -> str:
    """An error's message on one line; a message of more than `most` characters keeps only its start and its end."""
    sentence = printable(" ".join(str(error).split())) or type(error).__name__
    return sentence if len(sentence) <= most else f"{sentence[: most - most // 5]} ... {sentence[-most // 6 :]}"


def shown(value: object) -> str:
    """`repr` of a value, cut to 60 characters; the value may have any size, and may contain itself."""
    import reprlib

    try:
        text = reprlib.repr(value)
    except ValueError:  # an integer of more digits than Python writes, perhaps within a list
        text = hex(value) if isinstance(value, int) else f"a {type(value).__name__} with a number of too many digits"
    return text if len(text) <= 60 else f"{text[:57]}..."


def sentence(error: Any, where: str = "") -> str:
    """One of pydantic's errors as `place: value: what is wrong`; the place begins with `where`."""
    place = ".".join(filter(None, (where, *map(str, error["loc"]))))
    if error["type"] == "missing":
        return f"{place}: missing, and it has no default"
    message = error["msg"].removeprefix("Value error, ")
    if not error["loc"]:
        return f"{place}: {message}"
    return f"{place}: {shown(error['input'])}: {message[0].lower()}{message[1:]}"


def choices(kind: str, wrong: object, there_are: object) -> str:
    """The message `no KIND 'WRONG'; there are: A, B, C`, with a suggestion if one of the names is similar."""
    import difflib

    names = sorted(map(str, there_are))  # type: ignore[call-overload]
    near = difflib.get_close_matches(str(wrong)[:MAX_NAME], names, n=1)
    hint = f" (did you mean {near[0][:MAX_NAME]!r}?)" if near else ""
    some = ", ".join(name[:MAX_NAME] for name in names[:MAX_NAMES]) or "none"
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"no {kind} {shown(str(wrong))}{hint}; there are: {some}{more}"
