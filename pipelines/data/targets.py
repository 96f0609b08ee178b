"""Checks of the target of a row: a label, a number, answers or entities.

Each function returns the target in the type of its schema. It raises ValueError with the reason; the caller adds the
place in the file.
"""

import re
from collections.abc import Mapping
from typing import Any

from pipelines.core.errors import shown

# numbers as JSON and CSV write them; Python's float also takes 1_0, " 1 " and digits of other scripts
NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?", re.ASCII)


def label(value: Any, names: Mapping[str, str]) -> str:
    """A label: a text or a whole number, replaced by its name in `names` if it has one.

    1, 1.0 and True are three texts for one number, so a float or a bool is accepted only if `names` has it.
    """
    if isinstance(value, str | int | float):
        written = str(value) if not isinstance(value, int) or abs(value) < 2**63 else ""
        if written in names:
            return names[written]
        if written and isinstance(value, str | int) and not isinstance(value, bool):
            return written
    raise ValueError(f"the label is {shown(value)}; a text or a whole number is expected, or a name in label_names")


def number(value: Any) -> float:
    """A finite number; the value may be a text."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        parsed = float(value) if abs(value) < 1e300 else float("inf")
    elif isinstance(value, str) and NUMBER.fullmatch(value):
        parsed = float(value)
    else:
        parsed = float("nan")
    if not abs(parsed) < float("inf"):
        raise ValueError(f"the label {shown(value)} is not a number")
    return parsed


def answers(value: Any, context: str) -> list[dict[str, Any]]:
    """Answers that start inside the context. `expectations` counts those that are not the text at their position."""
    parsed = [_fields(item, "answer", text=str, start=int) for item in _list(value, "answers")]
    for answer in parsed:
        if not answer["text"]:
            raise ValueError("an answer is empty; a question without an answer has an empty list")
        if not 0 <= answer["start"] < len(context):
            raise ValueError(f"an answer starts at {answer['start']}; the context has {len(context)} characters")
    return parsed


def entities(value: Any, text: str) -> list[dict[str, Any]]:
    """Entities inside the text, sorted by their starts; raises ValueError if two overlap."""
    parsed = [_fields(item, "entity", start=int, end=int, label=str) for item in _list(value, "entities")]
    parsed.sort(key=lambda entity: entity["start"])
    reached = 0
    for entity in parsed:
        place = f"[{entity['start']}, {entity['end']})"
        if not entity["label"]:
            raise ValueError(f"the entity {place} has an empty label")
        if not 0 <= entity["start"] < entity["end"] <= len(text):
            raise ValueError(f"the entity {place} is outside the text, which has {len(text)} characters")
        if entity["start"] < reached:
            raise ValueError(f"the entity {place} overlaps the one before it, which ends at {reached}")
        reached = entity["end"]
    return parsed


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{what} is {shown(value)}; a list of objects is expected")
    return value


def _fields(item: Any, what: str, **kinds: type) -> dict[str, Any]:
    """The fields of one object. Raises ValueError for a missing field or a wrong type."""
    for name, kind in kinds.items():
        value = item.get(name) if isinstance(item, dict) else None
        if not isinstance(value, kind) or isinstance(value, bool):
            expected = "a text" if kind is str else "a whole number"
            raise ValueError(f"{name} of an {what} is {shown(value)}; {expected} is expected")
    return {name: item[name] for name in kinds}
