"""Encode questions with windows of their contexts: [CLS] question [SEP] window [SEP] (BERT, 4.2 and 4.3)."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipelines.core import schema
from pipelines.core.task import Task
from pipelines.text.encoding import Encoded
from pipelines.text.protocol import Tokenizer


class Window(NamedTuple):
    """Tokens [first, last) of the context."""

    first: int
    last: int


def encode(
    batch: pa.RecordBatch, tokenizer: Tokenizer, task: Task, max_length: int, stride: int = 128, max_question: int = 64
) -> Encoded:
    """Turn rows into windows, one output row each; also marks the rows with a truncated question.

    `stride` is the number of tokens from the start of one window to the start of the next. The target is the
    first answer of the row. If a window does not hold all of it, or there is no answer, start and end are 0, the
    position of [CLS].
    """
    questions = tokenizer.encode(batch.column("question").to_pylist())
    texts = batch.column("context").to_pylist()
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}  # each distinct context is encoded once
    contexts = tokenizer.encode_spans(list(places))
    known = "answers" in batch.schema.names
    answers: list[Any] = batch.column("answers").to_pylist() if known else [None] * batch.num_rows
    rows: list[dict[str, Any]] = []
    cut = np.zeros(batch.num_rows, bool)
    for i, row_id in enumerate(batch.column("id").to_pylist()):
        question = questions.values[questions.offsets[i] : questions.offsets[i + 1]]
        shortened = _kept(question, tokenizer, max_length, max_question)
        cut[i] = len(shortened) < len(question)
        head = [tokenizer.cls_id, *shortened.tolist(), *[tokenizer.sep_id] * tokenizer.middle]
        place = places[texts[i]]
        part = slice(contexts.ids.offsets[place], contexts.ids.offsets[place + 1])
        ids, starts, ends = contexts.ids.values[part], contexts.starts[part], contexts.ends[part]
        answer = None if answers[i] is None else locate(answers[i], starts, ends)
        for number, window in enumerate(windows(len(ids), max_length - len(head) - 1, stride)):
            here = slice(window.first, window.last)
            row = {"id": row_id, "window": number, "first_length": len(head), **_place(answer, window, len(head))}
            row["input_ids"] = [*head, *ids[here].tolist(), tokenizer.sep_id]
            row["length"] = len(row["input_ids"])
            row["starts"] = [0] * len(head) + starts[here].tolist() + [0]
            row["ends"] = [0] * len(head) + ends[here].tolist() + [0]
            rows.append(row)
    return pa.RecordBatch.from_pylist(rows, schema=schema.encoded(task.kind, tokenizer.vocab_size)), cut


def _kept(question: np.ndarray, tokenizer: Tokenizer, max_length: int, max_question: int) -> np.ndarray:
    """The kept part of a question: at most half of the sequence, with room for one token of the context."""
    return question[: max(0, min(max_question, max_length // 2, max_length - 3 - tokenizer.middle))]


def windows(tokens: int, room: int, stride: int) -> Iterator[Window]:
    """Windows of at most `room` tokens, each `stride` after the one before; the last one reaches the end."""
    first = 0
    while True:
        last = min(first + room, tokens)
        yield Window(first, last)
        if last == tokens:
            return
        first += min(stride, room)


def locate(answers: list[dict[str, Any]], starts: np.ndarray, ends: np.ndarray) -> tuple[int, int] | None:
    """First and last token of the first answer; None if there is no answer, or no token that overlaps it."""
    if not answers:
        return None
    begin, end = answers[0]["start"], answers[0]["start"] + len(answers[0]["text"])
    touched = np.flatnonzero((starts < end) & (ends > begin))
    return (int(touched[0]), int(touched[-1])) if len(touched) else None


def _place(answer: tuple[int, int] | None, window: Window, head: int) -> dict[str, int | None]:
    inside = answer is not None and window.first <= answer[0] and answer[1] < window.last
    if not inside or answer is None:
        return {"start_position": 0, "end_position": 0}
    return {"start_position": answer[0] - window.first + head, "end_position": answer[1] - window.first + head}
