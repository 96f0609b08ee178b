"""Limits for the rows of a request, in every protocol."""

from typing import Any

from pipelines.core.errors import InputError

MAX_ROWS = 256  # in one request
MAX_CHARACTERS = 20_000  # in one text
MAX_IN_ALL = 200_000  # characters in all texts of a request; more would delay other requests by minutes
MAX_CHOICES = 64  # of a row


def check(columns: dict[str, list[Any]]) -> None:
    """Raise InputError if a value is no text, or if the rows of a request are too many or too long."""
    in_all = 0
    for name, values in columns.items():
        check_rows(len(values))
        for number, value in enumerate(values):
            texts = value if isinstance(value, list) else [value]
            if len(texts) > MAX_CHOICES:
                raise InputError(f"{name}: row {number} has {len(texts)} texts; it may have {MAX_CHOICES}")
            for text in texts:
                in_all += _characters(text, f"{name}: row {number}")
    if in_all > MAX_IN_ALL:
        raise InputError(
            f"{in_all} characters in all rows; a request takes at most {MAX_IN_ALL}, and `bertline score` has no limit"
        )


def check_rows(count: int) -> None:
    """Raise InputError if a request may not have so many rows."""
    if count > MAX_ROWS:
        raise InputError(f"{count} rows; a request takes at most {MAX_ROWS}, and `bertline score` has no limit")


def _characters(text: Any, place: str) -> int:
    if text is None:
        raise InputError(f"{place} has no text")
    if not isinstance(text, str):
        raise InputError(f"{place} is not text")
    if len(text) > MAX_CHARACTERS:
        raise InputError(f"{place} has {len(text)} characters; it may have {MAX_CHARACTERS}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{place} has half of a surrogate pair; it is not Unicode text") from None
    return len(text)
