"""Read sentences in CoNLL's columns: one word per line, blank lines between sentences, tags in IOB1 or IOB2."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.core.errors import InputError
from pipelines.data.formats.records import Opener, Place, Record, lines, plain

OTHER_ENDS = re.compile("[\r\v\f\x1c-\x1e\x85\u2028\u2029]")


class Sentence(NamedTuple):
    place: Place
    words: list[str]
    tags: list[str]


def sentences(path: Path, word: int = 0, tag: int = -1, opener: Opener = plain) -> Iterator[Sentence]:
    """Sentences from the columns `word` and `tag`, separated by spaces or tabs; -DOCSTART- lines are skipped."""
    words: list[str] = []
    tags: list[str] = []
    start = columns = 0
    for number, line in lines(path, opener):
        if end := OTHER_ENDS.search(line):
            raise InputError(
                f"{path}: line {number}: it holds U+{ord(end[0]):04X}, which ends a line for some programs and is a "
                "part of a word for others; end lines by LF or CRLF, and take it out of words"
            )
        fields = fields_of(line)
        if not any(fields) or fields[0] == "-DOCSTART-":
            if words:
                yield Sentence(f"line {start}", words, tags)
            words, tags = [], []
            continue
        columns = columns or len(fields)
        if len(fields) != columns or not (-columns <= tag < columns and -columns <= word < columns):
            raise InputError(
                f"{path}: line {number}: {len(fields)} columns, {max(columns, word + 1, tag + 1)} are expected"
            )
        start = start if words else number
        words.append(fields[word])
        tags.append(fields[tag])
    if words:
        yield Sentence(f"line {start}", words, tags)


def fields_of(line: str) -> list[str]:
    """The columns of a line: between tabs if it has any, else between spaces. Those at its end are no column."""
    line = line.rstrip(" \t")
    return line.split("\t") if "\t" in line else line.split()


def row(path: Path, sentence: Sentence, row_id: str, between: str = " ") -> Record:
    """A row of kind `tagging`: the words with `between` joining them, and the entities as characters of that text."""
    starts: list[int] = []
    at = 0
    for word in sentence.words:
        starts.append(at)
        at += len(word) + len(between)
    try:
        word_spans = entities(sentence.tags)
    except ValueError as error:
        raise InputError(f"{path}: {sentence.place}: {error}") from None
    spans = [
        {"start": starts[first], "end": starts[last] + len(sentence.words[last]), "label": label}
        for first, last, label in word_spans
    ]
    return {"id": row_id, "text": between.join(sentence.words), "entities": spans}


def entities(tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """First word, last word and label of each entity in IOB tags, read as conlleval reads them.

    B- begins an entity. I- continues an entity of the same label, and otherwise begins one. So IOB1 and IOB2 both work.
    Raises ValueError for any other tag.
    """
    spans: list[list[Any]] = []
    before = "O"
    for i, tag in enumerate(tags):
        if tag != "O":
            prefix, dash, label = tag.partition("-")
            if prefix not in ("B", "I") or not dash or not label:
                raise ValueError(f"the tag {tag!r} is not one of O, B-<label>, I-<label>")
            if prefix == "I" and before[2:] == label and before != "O":
                spans[-1][1] = i
            else:
                spans.append([i, i, label])
        before = tag
    return [(first, last, label) for first, last, label in spans]
