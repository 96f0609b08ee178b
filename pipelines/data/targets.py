"""Checks of the target of a row: a label, a number, answers or entities.

Each function returns the target in the type of its schema. It raises ValueError with the reason; the caller adds the
place in the file.
"""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from pipelines.core.errors import shown

# numbers as JSON and CSV write them; Python's float also takes 1_0, " 1 " and digits of other scripts
NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?", re.ASCII)


def plain(value: Any) -> Any:
    """A decimal number of Parquet as a whole number or, if it is none, as a text; any other value as it is."""
    if not isinstance(value, Decimal):
        return value
    return int(value) if value == value.to_integral_value() else f"{value:f}"


def single(value: Any) -> Any:
    """The one value of a list, as annotation tools write a label; None for an empty list. ValueError for several."""
    if isinstance(value, list) and len(value) > 1 and all(isinstance(item, str | int) for item in value):
        raise ValueError(f"{len(value)} labels, {shown(value)}; one label a text is learned")
    if isinstance(value, list) and len(value) < 2:
        return plain(value[0]) if value else None
    return plain(value)


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
    way = "; `labels: {rename: ...}` can name it" if isinstance(value, int | float) and written else ""
    raise ValueError(f"the label is {shown(value)}; a text or a whole number is expected{way}")


def number(value: Any) -> float:
    """A finite number; the value may be a text."""
    value = plain(value)
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
    """Answers that start inside the context. `expectations` counts those that are not the text at their position.

    SQuAD names the position answer_start; Hugging Face's copy of it has a list of texts beside one of positions.
    """
    if isinstance(value, dict) and all(isinstance(value.get(name), list) for name in ("text", "answer_start")):
        texts, starts = value["text"], value["answer_start"]
        if len(texts) != len(starts):
            raise ValueError(f"answers: {len(texts)} texts and {len(starts)} positions in answer_start")
        value = [{"text": text, "start": start} for text, start in zip(texts, starts, strict=True)]
    items = [_named(item, start="answer_start") for item in _list(value, "answers")]
    parsed = [_fields(item, "answer", text=str, start=int) for item in items]
    for answer in parsed:
        if not answer["text"]:
            raise ValueError("an answer is empty; a question without an answer has an empty list")
        if not 0 <= answer["start"] < len(context):
            raise ValueError(f"an answer starts at {answer['start']}; the context has {len(context)} characters")
    return parsed


def entities(value: Any, text: str) -> list[dict[str, Any]]:
    """Entities inside the text, sorted by their starts; raises ValueError if two overlap."""
    items = [_entity(item) for item in _list(value, "entities")]
    parsed = [_fields(item, "entity", start=int, end=int, label=str) for item in items]
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


def tags(value: Any, words: Sequence[str], names: Mapping[str, str]) -> list[str]:
    """A tag for each word; one that is a number is replaced by its name. Raises ValueError for any other list."""
    if not isinstance(value, list) or len(value) != len(words):
        raise ValueError(f"{len(words)} words have the tags {shown(value)}; a tag for each word is expected")
    written = [names.get(str(tag), tag) for tag in value]
    if (other := next((tag for tag in written if not isinstance(tag, str)), None)) is not None:
        way = "write `labels: {rename: {'0': O, '1': B-<label>}}` in the entry"
        raise ValueError(f"the tag {shown(other)} has no name; {way}")
    return written


def _entity(item: Any) -> Any:
    """An entity with our names: spaCy writes [start, end, label], doccano start_offset, Label Studio labels."""
    if isinstance(item, list) and len(item) == 3:
        return dict(zip(("start", "end", "label"), item, strict=True))
    if isinstance(item, dict) and isinstance(item.get("labels"), list) and len(item["labels"]) == 1:
        item = {"label": item["labels"][0], **item}
    return _named(item, start="start_offset", end="end_offset")


def _named(item: Any, **others: str) -> Any:
    """An object with our names of fields in place of `others`; any other value as it is."""
    if not isinstance(item, dict):
        return item
    return {**item, **{ours: item[theirs] for ours, theirs in others.items() if ours not in item and theirs in item}}


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
