"""The two errors that a user can cause; every other error is a bug and shows its traceback."""

import json
from typing import Any
from unicodedata import category

MAX_NAME, MAX_NAMES = 60, 50  # letters of a name, and how many names are said
MAX_PRINTED = 1200  # letters of an error that ends a command
STEERS = ("Cc", "Cf", "Cs", "Zl", "Zp")  # Unicode's categories of what is no letter, and moves others or ends a line


class InputError(ValueError):
    """Something given to the program is wrong: a file, a row, a model folder. Exit status 1."""

    exit_status = 1


class UsageError(InputError):
    """Something that a user wrote is wrong: a key of params.yaml, an argument. Exit status 2."""

    exit_status = 2


class NoFileError(InputError):
    """A file that is to be read is not there."""


def printable(text: str, keep: str = "") -> str:
    """`text` with all that steers a terminal as JSON's escapes: control characters, line ends, changes of direction.

    What others wrote into a ledger, a tag or a log is printed so. `keep` are characters that stay as they are.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(json.dumps(c)[1:-1] if c not in keep and category(c) in STEERS else c for c in text)


def one_line(error: Exception, most: int = 200) -> str:
    """An error's message on one line; of more than `most` characters, its begin and its end."""
    said = printable(" ".join(str(error).split())) or type(error).__name__
    return said if len(said) <= most else f"{said[: most - most // 5]} ... {said[-most // 6 :]}"


def shown(value: object) -> str:
    """`repr` of a value that a file holds, cut to 60 characters: it may be of any size, and contain itself."""
    import reprlib

    found = reprlib.repr(value)
    return found if len(found) <= 60 else f"{found[:57]}..."


def sentence(error: Any, where: str = "") -> str:
    """One of the errors that pydantic lists, as `place: value: what is wrong`; a place begins with `where`."""
    place = ".".join(filter(None, (where, *map(str, error["loc"]))))
    if error["type"] == "missing":
        return f"{place}: missing, and it has no default"
    message = error["msg"].removeprefix("Value error, ")
    if not error["loc"]:
        return f"{place}: {message}"
    return f"{place}: {shown(error['input'])}: {message[0].lower()}{message[1:]}"


def choices(kind: str, wrong: object, there_are: object) -> str:
    """`no KIND 'WRONG'; there are: A, B, C`, with a suggestion if one of them is similar."""
    import difflib

    names = sorted(map(str, there_are))  # type: ignore[call-overload]
    near = difflib.get_close_matches(str(wrong)[:MAX_NAME], names, n=1)
    hint = f" (did you mean {near[0][:MAX_NAME]!r}?)" if near else ""
    some = ", ".join(name[:MAX_NAME] for name in names[:MAX_NAMES]) or "none"
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"no {kind} {shown(str(wrong))}{hint}; there are: {some}{more}"
