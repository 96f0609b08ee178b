"""Read sentences in CoNLL's columns: one word per line, blank lines between sentences, tags in any IOB scheme."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.core.errors import InputError
from pipelines.data.formats.records import Opener, Place, Record, lines, plain

TAG = re.compile(r"O|[BIELSU]-.+")
KEY = re.compile(r"#\s*\S+ = ")  # of CoNLL-U's comments
OTHER_ENDS = re.compile("[\r\v\f\x1c-\x1e\x85\u2028\u2029]")


class Sentence(NamedTuple):
    place: Place
    words: list[str]
    tags: list[str]


def sentences(path: Path, word: int = 0, tag: int = -1, opener: Opener = plain) -> Iterator[Sentence]:
    """Sentences from the columns `word` and `tag`, separated by spaces or tabs.

    Lines -DOCSTART- and comments are skipped.
    """
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
        if not words and is_comment(line):
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


def is_comment(line: str) -> bool:
    """Return whether a line before a sentence is a comment, such as `# id 1`, and not the word # with its tag."""
    return line.startswith("#") and bool(KEY.match(line) or not TAG.fullmatch(fields_of(line)[-1]))


def fields_of(line: str) -> list[str]:
    """The columns of a line: between tabs if it has any, else between spaces. Those at its end are no column."""
    line = line.rstrip(" \t")
    return line.split("\t") if "\t" in line else line.split()


def row(path: Path, sentence: Sentence, row_id: str, between: str = " ") -> Record:
    """A row of kind `tagging`: the words with `between` joining them, and the entities as characters of that text."""
    try:
        spans = character_spans(sentence.words, sentence.tags, between)
    except ValueError as error:
        raise InputError(f"{path}: {sentence.place}: {error}") from None
    return {"id": row_id, "text": between.join(sentence.words), "entities": spans}


def character_spans(words: Sequence[str], tags: Sequence[str], between: str) -> list[dict[str, Any]]:
    """The entities in IOB tags as characters of the text of these words. Raises ValueError for any other tag."""
    starts: list[int] = []
    at = 0
    for word in words:
        starts.append(at)
        at += len(word) + len(between)
    return [
        {"start": starts[first], "end": starts[last] + len(words[last]), "label": label}
        for first, last, label in entities(tags)
    ]


def entities(tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """First word, last word and label of each entity in IOB tags, read as conlleval reads them.

    B- begins an entity. I- continues an entity of the same label, and otherwise begins one. So IOB1 and IOB2 both work.
    E- and L- are an I-, S- and U- a B-, that ends its entity, as in BIOES and BILOU. Raises ValueError for another tag.
    """
    spans: list[list[Any]] = []
    before = "O"
    for i, tag in enumerate(tags):
        if tag != "O":
            prefix, _, label = tag.partition("-")
            if not TAG.fullmatch(tag):
                raise ValueError(f"the tag {tag!r} is not one of O, B-<label>, I-<label>")
            if prefix in "IEL" and before[0] in "BI" and before[2:] == label:
                spans[-1][1] = i
            else:
                spans.append([i, i, label])
        before = tag
    return [(first, last, label) for first, last, label in spans]
