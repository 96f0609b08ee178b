"""Values in messages, which may be of any size."""

import pytest

from pipelines.core.errors import shown

LONG = 16**50_000


@pytest.mark.parametrize(
    ("value", "beginning"),
    [
        (LONG, "0x1000"),
        (-LONG, "-0x1000"),
        ([LONG], "a list with a number"),
        ({"epochs": LONG}, "a dict with a number"),
    ],
    ids=["positive", "negative", "list", "dict"],
)
def test_a_number_of_more_digits_than_python_writes_is_shown(value: object, beginning: str) -> None:
    assert shown(value).startswith(beginning)
    assert len(shown(value)) <= 60
