"""Texts of whole characters: JSON can write half of a surrogate pair, which no file in UTF-8 can hold."""

from collections.abc import Iterable

HALF = "half of a surrogate pair, which is not a character"


def are_whole(texts: Iterable[str]) -> bool:
    """Return whether no text holds half of a surrogate pair."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True
