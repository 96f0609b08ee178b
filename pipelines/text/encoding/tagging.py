"""Encode entities as tags of tokens: O, B-<label>, I-<label> (BERT, section 5.3). Long texts become several parts.

The units of a text are words between spaces, or single characters. A token carries the tag of the first unit that
begins in it; the other tokens of a word carry no tag. In decoding, a unit gets the tag of the token in which it begins.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipelines.core import schema
from pipelines.core.errors import InputError
from pipelines.core.task import Task
from pipelines.text.encoding import Encoded
from pipelines.text.protocol import Tokenizer

NONE = -100  # the label of a token that carries no tag


def tags(task: Task) -> list[str]:
    """The tags of a task's labels, in the order of their ids."""
    return ["O", *(f"{prefix}-{label}" for label in task.labels for prefix in "BI")]


def encode(batch: pa.RecordBatch, tokenizer: Tokenizer, task: Task, max_length: int) -> Encoded:
    """Turn rows into sequences, one output row per part of a text; also marks the texts that are split."""
    texts = batch.column("text").to_pylist()
    spans = tokenizer.encode_spans(texts)
    known = "entities" in batch.schema.names
    entities: list[Any] = batch.column("entities").to_pylist() if known else [None] * len(texts)
    ids_of = {tag: i for i, tag in enumerate(tags(task))}
    rows: list[dict[str, Any]] = []
    split = np.zeros(len(texts), bool)
    for i, row_id in enumerate(batch.column("id").to_pylist()):
        here = slice(spans.ids.offsets[i], spans.ids.offsets[i + 1])
        ids, starts, ends = spans.ids.values[here], spans.starts[here], spans.ends[here]
        units = _units(texts[i], task)
        carriers = _carriers(units, starts, ends)
        labels = np.full(len(ids), NONE, np.int16)
        if entities[i] is not None:
            foreign = [entity["label"] for entity in entities[i] if entity["label"] not in task.labels]
            if foreign:
                raise InputError(f"row {row_id}: the label {foreign[0]!r} is not one of {', '.join(task.labels)}")
            unit_tags = _unit_tags(units, entities[i], ids_of)
            for token, unit in carriers.items():
                labels[token] = unit_tags[unit]
        bounds = list(parts(len(ids), max_length - 2, np.array(sorted(carriers), np.int64)))
        split[i] = len(bounds) > 1
        for number, (first, last) in enumerate(bounds):
            rows.append(
                {
                    "id": row_id,
                    "input_ids": [tokenizer.cls_id, *ids[first:last].tolist(), tokenizer.sep_id],
                    "length": last - first + 2,
                    "part": number,
                    "labels": [NONE, *labels[first:last].tolist(), NONE],
                    "starts": [0, *starts[first:last].tolist(), 0],
                    "ends": [0, *ends[first:last].tolist(), 0],
                }
            )
    return pa.RecordBatch.from_pylist(rows, schema=schema.encoded(task.kind, tokenizer.vocab_size)), split


def parts(tokens: int, room: int, carriers: np.ndarray) -> Iterator[tuple[int, int]]:
    """Token ranges of at most `room` tokens; each begins with a token that carries a tag, if there is one in reach."""
    first = 0
    while tokens - first > room:
        last = first + room
        before = carriers[(carriers > first) & (carriers <= last)]
        last = int(before[-1]) if len(before) else last
        yield first, last
        first = last
    yield first, tokens


class Decoded(NamedTuple):
    """The entities of a text and, for each, the tokens whose tags name it, in order."""

    entities: list[dict[str, Any]]
    tokens: list[list[int]]


def decode(text: str, task: Task, starts: Sequence[int], ends: Sequence[int], token_tags: Sequence[str]) -> Decoded:
    """The entities of a text, from the tags of its tokens: of all parts, without special tokens.

    An I- tag that does not follow a tag of the same label begins an entity, as in conlleval.
    """
    units = _units(text, task)
    unit_tags = ["O"] * len(units)
    carriers = _carriers(units, np.asarray(starts), np.asarray(ends))
    inside = _inside(units, np.asarray(starts), np.asarray(ends))
    for unit, token in enumerate(inside):
        if token >= 0:
            tag = token_tags[token]
            unit_tags[unit] = tag if carriers.get(token) == unit or tag == "O" else f"I-{tag[2:]}"
    decoded = Decoded([], [])
    before = "O"
    for (start, end), tag, token in zip(units, unit_tags, inside.tolist(), strict=True):
        if tag != "O":
            if tag[0] == "I" and before != "O" and before[2:] == tag[2:]:
                decoded.entities[-1]["end"] = end
            else:
                decoded.entities.append({"start": start, "end": end, "label": tag[2:]})
                decoded.tokens.append([])
            if token not in decoded.tokens[-1][-1:]:  # units of one token count it once
                decoded.tokens[-1].append(token)
        before = tag
    return decoded


def _units(text: str, task: Task) -> list[tuple[int, int]]:
    """Characters [start, end) of each unit; white space is not part of a unit."""
    return [match.span() for match in re.finditer(r"\S" if task.units == "characters" else r"\S+", text)]


def _inside(units: list[tuple[int, int]], starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """For each unit, the token with its first character, else the first token inside the unit; -1 if there is none."""
    tokens = np.full(len(units), -1, np.int64)
    if not len(starts):
        return tokens
    for i, (start, end) in enumerate(units):
        token = int(np.searchsorted(ends, start, side="right"))
        if token < len(starts) and starts[token] < end:
            tokens[i] = token
    return tokens


def _carriers(units: list[tuple[int, int]], starts: np.ndarray, ends: np.ndarray) -> dict[int, int]:
    """The tokens that carry a tag -> the unit whose tag they carry."""
    carriers: dict[int, int] = {}
    for unit, token in enumerate(_inside(units, starts, ends).tolist()):
        if token >= 0:
            carriers.setdefault(token, unit)
    return carriers


def _unit_tags(units: list[tuple[int, int]], entities: list[dict[str, Any]], ids_of: dict[str, int]) -> list[int]:
    """The id of the tag of each unit: B- at the first unit of an entity, I- at the others."""
    tag_ids = [0] * len(units)
    for entity in entities:
        prefix = "B"
        for i, (start, end) in enumerate(units):
            if start < entity["end"] and end > entity["start"]:
                tag_ids[i] = ids_of[f"{prefix}-{entity['label']}"]
                prefix = "I"
    return tag_ids
