"""Answers without receipts beside those that have them: a reader could take the one for the other."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.inference import receipt_keys, receipts
from pipelines.inference.receipt_keys import ReceiptKeys
from pipelines.scoring import receipt_check, verification
from pipelines.scoring.answer_rows import MODEL_COLUMNS
from pipelines.scoring.job_folders import Folder

FORGED = pa.array(["forged"] * 2)
SETS = [("label", "score"), MODEL_COLUMNS[:2], MODEL_COLUMNS]


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    receipt_keys.make(tmp_path / "receipts.key", "first")
    return tmp_path / "receipts.key"


@pytest.fixture
def signed(keys: Path) -> pa.Table:
    """Two rows with answers whose columns begin with `x_`."""
    texts, answers = pa.table({"text": ["good", "bad"]}), [{"label": "a", "score": 0.5}, {"label": "b", "score": 0.25}]
    signer = receipts.Signer(ReceiptKeys.read(keys).current, "0123")
    signatures = [*signer.receipts(receipts.AnsweringModel("single", "titles", 3, "d" * 64), texts, answers)]
    of_model = dict(zip(MODEL_COLUMNS, ("titles", 3, "d" * 64), strict=True))
    rows = [answer | of_model | {receipts.COLUMN: one} for answer, one in zip(answers, signatures, strict=True)]
    table = pa.Table.from_pylist(rows)
    return table.rename_columns([f"x_{name}" for name in table.column_names]).append_column("text", texts["text"])


def written(table: pa.Table, file: Path, *names: str) -> Path:
    """The file of a table with forged columns of these names."""
    for name in names:
        table = table.append_column(name, FORGED)
    pq.write_table(table, file)
    return file


def test_a_single_column_is_no_set_of_answers_and_is_named(signed: pa.Table, keys: Path, tmp_path: Path) -> None:
    whole = verification.verify(written(signed, tmp_path / "whole.parquet"), keys)
    checked = "2 receipts checked of x_label, x_score: 2 by titles version 3; signed with "
    assert (whole.findings, whole.plain().startswith(checked), "no receipt" in whole.plain()) == ([], True, False)
    gold = verification.verify(written(signed, tmp_path / "gold.parquet", "label"), keys)  # it came with the input
    assert (gold.findings, gold.plain().endswith("; no receipt signs label")) == ([], True)
    assert gold.answer()["receipts"]["unsigned"] == ["label"]


@pytest.mark.parametrize("names", SETS)
def test_a_set_without_receipts_is_a_finding_unless_another_is_chosen(
    names: tuple[str, ...], signed: pa.Table, keys: Path, tmp_path: Path
) -> None:
    file = written(signed, tmp_path / "both.parquet", *names)
    (line,) = verification.verify(file, keys).findings
    wanted = f"no receipt signs the answers {', '.join(names)}; choose with --prefix which answers to check"
    assert line == f"{file}: {wanted}"
    chosen = verification.verify(file, keys, prefix="x_")
    assert chosen.findings == []
    assert chosen.plain().endswith(f"; no receipt signs {', '.join(sorted(names))}")


def test_a_column_of_the_input_that_ends_like_a_stamp_is_no_set(signed: pa.Table, keys: Path, tmp_path: Path) -> None:
    file = written(signed, tmp_path / "devices.parquet", "device_model_name", "app_model_version")
    assert verification.verify(file, keys).findings == []


def test_answers_of_an_earlier_job_are_checked_by_their_own_receipts(
    signed: pa.Table, keys: Path, tmp_path: Path
) -> None:
    twice = signed
    for name in [name for name in signed.column_names if name.startswith("x_")]:
        twice = twice.append_column(name.removeprefix("x_"), signed[name])
    file = written(twice, tmp_path / "twice.parquet")
    known = ReceiptKeys.read(keys)
    checked = receipt_check.check(Folder(file), known, "x_")  # as of a job with this prefix
    assert (checked.findings, checked.rows) == ([], 4)
    edited = twice.set_column(twice.column_names.index("label"), "label", FORGED)
    file = written(edited, tmp_path / "edited.parquet")
    lines = receipt_check.check(Folder(file), known, "x_").findings
    assert lines == [f"{file}: row {number}: its answer was touched" for number in range(2)]


def test_a_prefix_that_no_answers_have_is_a_finding(signed: pa.Table, keys: Path, tmp_path: Path) -> None:
    file = written(signed, tmp_path / "one.parquet")
    lines = receipt_check.check(Folder(file), ReceiptKeys.read(keys), "y_", alone=True).findings
    assert lines == [f"{file}: no column y_model_digest; there are x_model_digest"]
