"""Behaviour checks, which a model must pass whatever its score (Ribeiro et al. 2020, "Beyond Accuracy": CheckList).

Minimum functionality: simple rows with their expected predictions. Invariance: a change of the text that must not
change the prediction. Direction: a change that may move a probability, or a number, in one direction only.
"""

import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from pipelines.core.errors import UsageError, choices, shown
from pipelines.core.schema import INPUTS, ROWS, SAYS, TARGETS
from pipelines.core.task import Task
from pipelines.entries.evaluate import Check
from pipelines.evaluation import answer_scores
from pipelines.inference.predictor import Predictor

CLASSED = ("single", "pair", "choice")  # kinds with a probability for every label
ENTITY = {"start": int, "end": int, "label": str}
SHOWN = 3  # the most failed rows in a result
FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)} | {0x20: 0x3000}
WRITE: dict[str, Callable[[str], str]] = {
    "": lambda text: text,
    "upper": str.upper,
    "lower": str.lower,
    "full_width": lambda text: text.translate(FULL_WIDTH),
}
Result = dict[str, Any]
Answer = dict[str, Any]  # a row of predictions
Parts = Callable[[], Iterable[pa.RecordBatch]]  # the rows of a split; each call starts at the first row


def check(predictor: Predictor, parts: Parts, checks: Mapping[str, Check]) -> list[Result]:
    """Run the checks: {name, kind, rows, passed (share), at_least, ok, failures: [{inputs, said, wanted}]} for each."""
    return [_result(predictor, parts, name, check_of_name) for name, check_of_name in checks.items()]


def _result(predictor: Predictor, parts: Parts, name: str, check: Check) -> Result:
    where = f"params.yaml: behaviour.{name}"
    if bool(check.rows) == bool(check.replace or check.write):
        raise UsageError(f"{where}: give either rows, or a change to the rows of the split (replace, write)")
    if check.rows:
        kind, outcomes = "minimum", _minimum(predictor, check, where)
    else:
        kind = "direction" if check.moves else "invariance"
        outcomes = _changed(predictor, parts(), check, where)
    count = failed = 0
    failures: list[Result] = []
    for outcome in outcomes:
        count += 1
        failed += outcome is not None
        if outcome and len(failures) < SHOWN:
            failures.append(outcome)
    if not count:
        raise UsageError(f"{where}: it changes no row of the split, and so checks nothing")
    passed = (count - failed) / count
    return {
        "name": name,
        "kind": kind,
        "rows": count,
        "passed": passed,
        "at_least": check.at_least,
        "ok": passed >= check.at_least,
        "failures": failures,
    }


def _minimum(predictor: Predictor, check: Check, where: str) -> Iterable[Result | None]:
    """For each row of the check the failure, or None if its prediction is right."""
    task = predictor.task
    target = TARGETS[task.kind]
    expected = []
    for number, row in enumerate(check.rows):
        if set(row) != {*INPUTS[task.kind], target}:
            raise UsageError(
                f"{where}.rows: a row has {', '.join(row)}; {', '.join([*INPUTS[task.kind], target])} are expected"
            )
        expected.append(_expected(task, row[target], f"{where}.rows: row {number}: {target}"))
    fields = [ROWS[task.kind].field(name) for name in INPUTS[task.kind]]
    inputs = [{field.name: row[field.name] for field in fields} for row in check.rows]
    try:
        answers = predictor.predict(pa.Table.from_pylist(inputs, schema=pa.schema(fields))).to_pylist()
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise UsageError(f"{where}.rows: {error}") from None
    right = [
        _right(task.kind, answer, wanted, check, task.compared_by)
        for answer, wanted in zip(answers, expected, strict=True)
    ]
    return [
        None if ok else {**row_inputs, "said": _gist(task.kind, answer), "wanted": row[target]}
        for ok, row_inputs, answer, row in zip(right, inputs, answers, check.rows, strict=True)
    ]


def _expected(task: Task, value: Any, where: str) -> Any:
    """The expected prediction of a row as `_right` compares it. Raises UsageError if it is none of the task's kind."""
    if task.kind in CLASSED:
        _require_label(task, value, where)
    if task.kind == "regression" and not (type(value) in (int, float) and abs(value) <= sys.float_info.max):
        raise UsageError(f"{where} is {shown(value)}; a number is expected")
    if task.kind == "span":
        answers = value if isinstance(value, list) else [value]
        texts = [answer.get("text") if isinstance(answer, dict) else answer for answer in answers]
        if not all(isinstance(text, str) for text in texts):
            raise UsageError(f"{where} is {shown(value)}; a text or a list of texts is expected, [] for no answer")
        return texts
    if task.kind == "tagging":
        if not (isinstance(value, list) and all(map(_is_entity, value))):
            raise UsageError(f"{where} is {shown(value)}; a list of entities with start, end, label is expected")
        for one in value:
            _require_label(task, one["label"], where)
    return value


def _is_entity(value: Any) -> bool:
    return isinstance(value, dict) and {k: type(part) for k, part in value.items()} == ENTITY


def _require_label(task: Task, label: Any, where: str) -> None:
    if label not in task.labels:
        raise UsageError(f"{where}: {choices('label', label, task.labels)}")


def _changed(
    predictor: Predictor, parts: Iterable[pa.RecordBatch], check: Check, where: str
) -> Iterator[Result | None]:
    """For each row that the check changes the failure, or None if its new prediction passes."""
    kind = predictor.task.kind
    names = check.columns or INPUTS[kind]
    if unknown := [name for name in names if name not in INPUTS[kind]]:
        raise UsageError(f"{where}.columns: {choices('text', unknown[0], INPUTS[kind])}")
    passes = _moves(predictor, check, where) if check.moves else _same(kind, check)
    fields = pa.schema([ROWS[kind].field(name) for name in INPUTS[kind]])
    for part in parts:
        before = part.select(INPUTS[kind]).to_pylist()
        after = [{**row, **{name: _rewritten(row[name], check, where) for name in names}} for row in before]
        touched = [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
        if not touched:
            continue
        first = predictor.predict(part.take(touched)).to_pylist()
        then = predictor.predict(pa.Table.from_pylist([after[i] for i in touched], schema=fields)).to_pylist()
        for i, a, b in zip(touched, first, then, strict=True):
            yield None if passes(a, b) else {**after[i], "said": _gist(kind, b), "wanted": _gist(kind, a)}


def _rewritten(text: Any, check: Check, where: str) -> Any:
    if isinstance(text, list):
        return [_rewritten(part, check, where) for part in text]
    for pattern, there in check.replace.items():
        try:
            text = re.sub(pattern, there, text)
        except re.error as error:
            raise UsageError(f"{where}.replace: {pattern!r} to {there!r}: {error}") from None
    return WRITE[check.write](text)


def _right(kind: str, answer: Answer, expected: Any, check: Check, normalization: str) -> bool:
    if kind == "regression":
        return abs(answer["value"] - expected) <= check.tolerance
    if kind == "span":
        return answer_scores.best_of(answer["answer"], expected, normalization)[0] == 1
    if kind == "tagging":
        return answer["entities"] == expected
    return answer["label"] == expected


def _same(kind: str, check: Check) -> Callable[[Answer, Answer], bool]:
    """A function that tests if two answers agree: spans by case-folded NFKC text, entities by their labels in order."""
    if kind == "regression":
        return lambda a, b: abs(a["value"] - b["value"]) <= check.tolerance
    if kind == "span":
        return lambda a, b: _folded(a["answer"]) == _folded(b["answer"])
    if kind == "tagging":
        return lambda a, b: [e["label"] for e in a["entities"]] == [e["label"] for e in b["entities"]]
    return lambda a, b: a["label"] == b["label"]


def _moves(predictor: Predictor, check: Check, where: str) -> Callable[[Answer, Answer], bool]:
    task = predictor.task
    there_are = ("value",) if task.kind == "regression" else task.labels if task.kind in CLASSED else ()
    for name in check.moves:
        if name not in there_are:
            raise UsageError(f"{where}.moves: {choices('number', name, there_are)}")

    def number(answer: Answer, name: str) -> float:
        return answer["value"] if name == "value" else answer["scores"][task.labels.index(name)]

    def passes(a: Answer, b: Answer) -> bool:
        gains = [(number(b, name) - number(a, name)) * (1 if way == "up" else -1) for name, way in check.moves.items()]
        return min(gains) >= -check.tolerance

    return passes


def _gist(kind: str, answer: Answer) -> Any:
    return answer[SAYS[kind]]


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()
