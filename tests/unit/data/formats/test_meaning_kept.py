"""What files say is taken as they say it, or refused: line ends, truths in quotes, a second text."""

import json
from pathlib import Path

import pytest

from pipelines.core.errors import InputError
from pipelines.data.corpora import custom
from pipelines.data.formats import conll
from pipelines.data.formats.squad_json import questions


@pytest.mark.parametrize("end", ["\r", "\u2028", "\u2029", "\x85", "\v", "\f"])
@pytest.mark.parametrize("gap", [" ", "\t"])
def test_another_line_end_in_conll_is_named(tmp_path: Path, end: str, gap: str) -> None:
    file = tmp_path / "train.conll"
    file.write_bytes(f"EU{gap}B-ORG\nrejects{gap}O{end}German{gap}O\n".encode())
    with pytest.raises(InputError, match=rf"line 2: it holds U\+{ord(end):04X}.*; end lines by LF or CRLF"):
        list(conll.sentences(file))
    file.write_bytes(f"EU{gap}B-ORG\r\nrejects{gap}O\r\n\r\n".encode())
    assert [sentence.words for sentence in conll.sentences(file)] == [["EU", "rejects"]]


@pytest.mark.parametrize("written", ["false", "true", 0, 1, None, []])
def test_a_truth_that_is_no_truth_is_refused(tmp_path: Path, written: object) -> None:
    answers = [{"text": "Nara", "answer_start": 0}]
    question = {"id": "q", "question": "Where?", "answers": answers, "is_impossible": written}
    file = tmp_path / "train.json"
    file.write_text(json.dumps({"data": [{"paragraphs": [{"context": "Nara", "qas": [question]}]}]}))
    with pytest.raises(InputError, match=r"qas\[0\]: 'is_impossible' is .*; write true or false, without quotes"):
        list(questions(file))
    file.write_text(_plain(question))
    assert next(iter(questions(file)))["answers"] == [{"text": "Nara", "start": 0}]


def _plain(question: dict[str, object]) -> str:
    return json.dumps({"data": [{"paragraphs": [{"context": "Nara", "qas": [{**question, "is_impossible": False}]}]}]})


def test_the_second_text_of_a_regression_is_kept(tmp_path: Path) -> None:
    (tmp_path / "two.csv").write_text("text,text_pair,label\nA cat.,A dog.,2.5\n")
    (tmp_path / "one.csv").write_text("text,label\nA cat.,2.5\n")
    second_texts = {}
    for name in ("two", "one"):
        params = custom.Params(kind="regression", files={"train": f"{name}.csv"})
        task = custom.task(tmp_path, "", params)
        second_texts[name] = [row["text_pair"] for row in custom.parse(tmp_path, task, "train", params)]
    assert second_texts == {"two": ["A dog."], "one": [""]}
