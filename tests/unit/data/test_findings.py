"""Wrong rows of files that are no tables: all are listed at once, or left out."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.core.errors import FindingsError
from pipelines.data.corpora import custom

LETTERS = "abcdefghijkl"  # each text is of one letter, since similar texts stay in one split
WRONG = (1, 3)


def write_questions(file: Path) -> dict[str, Any]:
    answers = [{"text": letter * 9, "answer_start": "0" if n in WRONG else 0} for n, letter in enumerate(LETTERS)]
    paragraphs = [
        {"context": answer["text"], "qas": [{"id": n, "question": "What?", "answers": [answer]}]}
        for n, answer in enumerate(answers)
    ]
    file.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    return {"format": "squad", "kind": "span"}


def write_sentences(file: Path) -> dict[str, Any]:
    words = (f"{letter * 9} {'X-a' if n in WRONG else 'B-a'}\n\n" for n, letter in enumerate(LETTERS))
    file.write_text("".join(words))
    return {"format": "conll", "kind": "tagging", "labels": ["a"]}


@pytest.mark.parametrize("write", [write_questions, write_sentences])
@pytest.mark.parametrize("split", [{}, {"split": {"dev": 0.0, "test": 0.3}}])
def test_all_wrong_rows_are_listed_or_left_out(write: Any, split: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "corpus"
    keys = write(file) | split
    params = custom.Params(**keys)
    task = custom.task(file, "it", params)
    with pytest.raises(FindingsError) as caught:
        list(custom.parse(file, task, "train", params))
    assert len(caught.value.findings) == len(WRONG)
    assert all(finding.count(str(file)) == 1 for finding in caught.value.findings)
    params = custom.Params(**keys, leave_out=["broken"])
    counts = [
        len(list(custom.parse(file, task, name, params))) for name in (("train", "test") if split else ("train",))
    ]
    assert sum(counts) == len(LETTERS) - len(WRONG)
