"""The check of receipts: each row whose text, answer or model was touched since its receipt was signed."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from pipelines.core import schema
from pipelines.core.errors import shown
from pipelines.core.progress import progress
from pipelines.inference import receipts
from pipelines.inference.receipt_keys import ReceiptKeys
from pipelines.inference.receipts import Receipt
from pipelines.scoring import answer_rows
from pipelines.scoring.answer_rows import AnswerRows
from pipelines.scoring.job_folders import Folder

OF_MODEL = ("model", "version", "model_digest")  # the fields of a receipt that these columns must agree with


@dataclass
class Checked:
    """The rows with receipts that were checked, by the model and by the key of the receipt; a sentence a finding.

    `columns` are those whose values a receipt was compared with, `unsigned` others that look like answers.
    """

    rows: int = 0
    columns: set[str] = field(default_factory=set)
    unsigned: set[str] = field(default_factory=set)
    models: Counter[str] = field(default_factory=Counter)
    keys: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def answer(self) -> dict[str, Any]:
        """The counts for a program."""
        counts = {"rows": self.rows, "models": dict(self.models), "keys": dict(self.keys)}
        return counts | {"columns": sorted(self.columns), "unsigned": sorted(self.unsigned)}

    def sentence(self) -> str:
        """The counts in words."""
        models = ", ".join(f"{count:,} by {model}" for model, count in sorted(self.models.items()))
        keys = ", ".join(sorted(self.keys))
        of = f" of {', '.join(sorted(self.columns))}" if self.columns else ""
        unsigned = f"; no receipt signs {', '.join(sorted(self.unsigned))}" if self.unsigned else ""
        return f"{self.rows:,} receipts checked{of}{f': {models}; signed with {keys}' if models else ''}{unsigned}"


def check(place: Folder, keys: ReceiptKeys, prefix: str | None = None, alone: bool = False) -> Checked:
    """Check the receipts of every row in `place`, a Parquet file or a folder of them.

    Args:
        prefix: of the answers that must have receipts; by default any, of which there must be some.
        alone: the caller has chosen `prefix`, and knows that other answers in the files are not checked; otherwise
            others with receipts are checked too, and those without are findings, as a reader could take them for what
            the receipts are of.

    Raises InputError if there is no such file. Everything else that is wrong is a finding.
    """
    checked, files = Checked(), answer_rows.files(place)
    with progress("checking receipts", len(files), "files") as advance:
        for number, name in enumerate(files, start=1):
            columns: dict[str, None] = {}
            sets: dict[str, bool] = {}  # prefix -> whether it has receipts
            for rows in answer_rows.read(place, name, checked.findings):
                columns |= dict.fromkeys(rows.rows.column_names)
                has = sets[rows.prefix] = f"{rows.prefix}{receipts.COLUMN}" in columns
                if rows.prefix == prefix or (has and not alone):
                    _check(rows, keys, checked)
            wanted = [one for one, has in sets.items() if one == prefix or (has and not alone)]
            checked.findings += [f"{place.place(name)}: {line}" for line in _of_file(sets, wanted, prefix)]
            if wanted:
                others = answer_rows.other_answers(columns, wanted)
                checked.unsigned |= {*others, *_named(columns, checked.columns)}
                if others and not alone:
                    checked.findings.append(
                        f"{place.place(name)}: no receipt signs the answers {', '.join(others)}; choose with --prefix "
                        "which answers to check"
                    )
            advance(number)
    checked.findings = [place.shown(line) for line in checked.findings]
    return checked


def _of_file(sets: dict[str, bool], wanted: list[str], prefix: str | None) -> Iterator[str]:
    """A sentence if a file has answers, but none with receipts, or none with the prefix."""
    if sets and not any(sets.values()):
        yield f"no column {receipts.COLUMN}; its answers have no receipts"
    elif prefix is not None and sets and prefix not in wanted:
        yield f"no column {prefix}{answer_rows.MARK}; there are {', '.join(one + answer_rows.MARK for one in sets)}"


def _named(columns: Collection[str], checked: Collection[str]) -> set[str]:
    """The columns with the name of an answer that are not checked, such as labels that came with the input."""
    names = {name for kind in schema.PREDICTIONS for name in answer_rows.signed(kind)}
    return names.intersection(columns) - {*checked}


def _check(rows: AnswerRows, keys: ReceiptKeys, checked: Checked) -> None:
    """Check rows of one set of answers."""
    digests = _Digests(rows)
    models = list(zip(*map(rows.values, answer_rows.MODEL_COLUMNS), strict=True))
    kinds: set[Any] = set()
    for number, receipt in enumerate(rows.values(receipts.COLUMN)):
        faults = list(_faults(number, receipt, models[number], digests, keys))
        checked.rows += 1
        checked.findings += [f"{rows.place(number)}: {fault}" for fault in faults]
        if not faults:
            checked.models[f"{receipt['model']} version {receipt['version']}"] += 1
            checked.keys[receipt["key"]] += 1
        kinds.add(receipt.get("kind") if isinstance(receipt, dict) else None)
    signed = {f"{rows.prefix}{name}" for kind in kinds & {*schema.PREDICTIONS} for name in answer_rows.signed(kind)}
    checked.columns |= signed.intersection(rows.rows.column_names)


def _faults(number: int, receipt: Any, model: tuple[Any, ...], digests: "_Digests", keys: ReceiptKeys) -> Iterator[str]:
    """The faults of one row; those of its text, answer and model only if its receipt is the one that was signed."""
    if problem := _unsigned(receipt, keys):
        yield problem
        return
    kind = receipt["kind"]
    if digests.inputs(kind)[number] != receipt["input"]:
        yield f"its text was touched ({', '.join(schema.INPUTS[kind])})"
    if digests.answers(kind)[number] != receipt["answer"]:
        yield "its answer was touched"
    if model != tuple(receipt[name] for name in OF_MODEL):
        signed = f"{receipt['model']} version {receipt['version']}, files {receipt['model_digest'][:12]}"
        of_row = f"{shown(model[0])} version {shown(model[1])}, files {shown(model[2])[:13]}"
        yield f"its model was touched: the receipt is of {signed}; the row has {of_row}"


def _unsigned(receipt: Any, keys: ReceiptKeys) -> str:
    """The reason why a receipt proves nothing; "" if one of the keys has signed it."""
    if not isinstance(receipt, dict) or set(receipt) != set(receipts.FIELDS) or None in receipt.values():
        return "its receipt is missing or damaged"
    key = keys.find(receipt["key"]) if isinstance(receipt["key"], str) else None
    if not key:
        return f"its receipt is of the key {shown(receipt['key'])}, which {keys.place} does not have"
    try:
        signed = receipts.is_signed(receipt, key)
    except (TypeError, ValueError):  # a text that is no UTF-8
        signed = False
    return "" if signed else f"its receipt was touched: its HMAC is not that of the key {key.id}"


class _Digests:
    """The digests of rows as they are now; "" where a row has no text or no answer to digest."""

    def __init__(self, rows: AnswerRows) -> None:
        self._rows = rows
        self._inputs: dict[str, list[str]] = {}
        self._answers: dict[str, list[str]] = {}

    def inputs(self, kind: str) -> list[str]:
        """The digests of the rows' inputs, for a task of this kind."""
        if kind not in self._inputs:
            self._inputs[kind] = [
                receipts.input_digest(row) if row is not None else "" for row in self._rows.inputs(kind)
            ]
        return self._inputs[kind]

    def answers(self, kind: str) -> list[str]:
        """The digests of the rows' answers, for a task of this kind."""
        if kind not in self._answers:
            self._answers[kind] = [_digest(answer) for answer in self._rows.answers(kind)]
        return self._answers[kind]


def _digest(answer: Receipt) -> str:
    try:
        return receipts.answer_digest(answer)
    except (TypeError, ValueError):
        return ""
