"""Read questions from files in SQuAD's JSON form, 1.1 and 2.0, which JaQuAD and JSQuAD use too."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pipelines.core import characters, json_file
from pipelines.core.errors import InputError, shown
from pipelines.data import targets
from pipelines.data.formats.records import Record


def questions(
    path: Path, encoding: str = "utf-8-sig", note: Callable[[InputError], None] | None = None
) -> Iterator[Record]:
    """Rows of kind `span`. `answers` is [] for an unanswerable question, and None if the file has no key `answers`.

    `note` takes the error of a question; without it the first one is raised.
    """
    document = json_file.read(path, encoding)
    if not isinstance(document, dict) or not isinstance(document.get("data"), list):
        raise InputError(f"{path}: no list 'data' at its top; SQuAD's form is data, paragraphs, context and qas")
    for number, article in enumerate(document["data"]):
        at = f"{path}: data[{number}]"
        for place, paragraph in enumerate(_get(article, "paragraphs", list, at)):
            where = f"{at}.paragraphs[{place}]"
            context = _get(paragraph, "context", str, where)
            for n, question in enumerate(_get(paragraph, "qas", list, where)):
                try:
                    row = _row(question, context, f"{where}.qas[{n}]")
                except InputError as error:
                    if note is None:
                        raise
                    note(error)
                else:
                    yield row


def _row(question: Any, context: str, at: str) -> Record:
    answers = None
    if isinstance(question, dict) and "answers" in question:
        impossible = question.get("is_impossible", False)
        if not isinstance(impossible, bool):  # the text "false" would be true
            raise InputError(f"{at}: 'is_impossible' is {shown(impossible)}; write true or false, without quotes")
        listed = [] if impossible else _get(question, "answers", list, at)
        answers = [{"text": _get(a, "text", str, at), "start": _get(a, "answer_start", int, at)} for a in listed]
        try:
            targets.answers(answers, context)
        except ValueError as error:
            raise InputError(f"{at}: {error}") from None
    row = {"id": str(_get(question, "id", str | int, at)), "question": _get(question, "question", str, at)}
    return {**row, "context": context, "answers": answers}


def _get(record: Any, key: str, kind: Any, at: str) -> Any:
    """`record[key]`, which must be of `kind`."""
    value = record.get(key) if isinstance(record, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        names = getattr(kind, "__name__", str(kind))
        raise InputError(f"{at}: {key!r} is {'missing' if value is None else repr(value)[:60]}; {names} is expected")
    if isinstance(value, str) and not characters.are_whole([value]):
        raise InputError(f"{at}: {key!r} holds {characters.HALF}")
    return value
