"""A metrics file that was edited by hand fails in one sentence, for every reader."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.core import metrics_file, paths
from pipelines.core.errors import InputError
from pipelines.evaluation import evaluated_run
from pipelines.reports import report_folder
from tests.support.records import RECORDS

RUN = RECORDS[0]["run"]
EDITS: list[tuple[Any, str]] = [
    ({"metrics": 3}, "no `run`"),
    ({key: value for key, value in RECORDS[0].items() if key != "task"}, "no `task`"),
    (RECORDS[0] | {"metrics": 3}, "a wrong `metrics`"),
    ({"run": RUN, "objective": "mlm"}, "no `metrics`"),
]


@pytest.mark.parametrize(("edited", "wrong"), EDITS)
def test_a_key_that_is_missing_is_named(edited: Any, wrong: str, checkout: Path) -> None:
    file = paths.metrics(RUN)
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(edited))
    message = f"^{file}: {wrong}; `bertline run` writes the file again$"
    for read in (
        lambda: metrics_file.read(RUN),
        lambda: report_folder.comparison({"evaluate": {RUN: {}}}),
        lambda: evaluated_run.record(RUN),
    ):
        with pytest.raises(InputError, match=message):
            read()


def test_a_whole_file_is_read_as_it_is(checkout: Path) -> None:
    file = paths.metrics(RUN)
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(RECORDS[0]))
    assert metrics_file.read(RUN) == RECORDS[0]
