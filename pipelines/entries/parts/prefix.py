"""The prefix of the columns of answers: a key of score and of schedule."""

from typing import Annotated

from pydantic import AfterValidator

from pipelines.core.errors import UsageError


def checked(prefix: str) -> str:
    """The same prefix. Raises UsageError for what no column's name can hold, such as a control character."""
    if not prefix.isprintable():  # half of a surrogate pair is not either: what is not UTF-8 on a command line
        raise UsageError(f"prefix {prefix!a} has a character that cannot be printed")
    return prefix


Prefix = Annotated[str, AfterValidator(checked)]
