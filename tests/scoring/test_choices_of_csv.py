"""Choices in a cell of CSV, a list of texts as JSON: a cell that holds none is a bad row, its neighbours are read."""

import csv
import hashlib
from pathlib import Path

from pipelines.core.task import Task
from pipelines.scoring import pieces
from pipelines.scoring.job_folders import Folder
from pipelines.scoring.partitions import Partition

CELLS = {
    '["犬", "映画"]': "",
    '["a\\ud83d", "b"]': "not_utf8",
    "[" * 100_000: "wrong_type",
    '{"a": 1}': "wrong_type",
    '["a", null]': "wrong_choices",
}


def test_a_cell_without_choices_is_a_bad_row(tmp_path: Path) -> None:
    with (tmp_path / "a.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "choices"), *(("q", cell) for cell in CELLS)])
    partition, task = Partition("a.csv", Folder(tmp_path)), Task("quiz", "choice", ("0", "1"))
    read = list(pieces.read(partition, task, 1000, {}, hashlib.sha256()))
    assert [number for piece in read for number in piece.numbers] == [0]
    assert [bad.code for piece in read for bad in piece.bad] == [code for code in CELLS.values() if code]
