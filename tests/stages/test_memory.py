"""Memory does not grow with the corpus."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.core import schema, tables
from pipelines.core.task import Task
from tests.support import tiny
from tests.support.places import ROOT

TEXT = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "samples/livedoor").glob("*.tsv")))
# not getrusage: what that tells of a process includes the one that started it
MEASURED = """
from pathlib import Path
from pipelines.stages import {stage}
{stage}.main("it")
print(next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")))
"""


def peak(stage: str) -> int:
    """The most memory that a stage's process held, in KiB."""
    command = [sys.executable, "-c", MEASURED.format(stage=stage)]
    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("counts", [(3_000, 12_000), pytest.param((3_000, 24_000), marks=pytest.mark.soak)])
def test_several_times_the_text_is_encoded_in_the_same_memory(counts: tuple[int, int], checkout: Path) -> None:
    tiny.tokenizer(checkout / "vocab")
    params = {"resources": {"threads": 1}, "encode": {"it": {"task": "it", "vocab": "vocab", "max_length": 32}}}
    Path("params.yaml").write_text(yaml.safe_dump(params))
    peaks = []
    for count in counts:
        rows = ({"id": str(i), "text": (TEXT * 2)[i * 37 % len(TEXT) :][:4000]} for i in range(count))
        tables.write(
            Path("artifacts/rows/it/train.parquet"), tables.batches(rows, schema.ROWS["text"]), schema.ROWS["text"]
        )
        Task("it", "text", splits=("train",)).save(Path("artifacts/rows/it"))
        peaks.append(peak("encode"))
    tokens = json.loads(Path("artifacts/encoded/it/encoding.json").read_text())["tokens"]["train"]
    assert tokens > 700 * counts[1]
    # A row's text is 11 KiB, and its ids are as much again. One part of them, and what the allocator keeps for more,
    # take 30 to 50 MiB in all, and not all of it is there after 3,000 rows.
    growth = (peaks[1] - peaks[0]) / (counts[1] - counts[0])
    assert growth < 8, f"{growth:.1f} KiB a row"


def span(number: int) -> dict[str, Any]:
    """A question to some 600 letters, which are a dozen windows of the tiny model's."""
    context = (TEXT * 2)[number * 37 % len(TEXT) :][:600]
    answers = [{"text": context[8:12], "start": 8}]
    return {"id": str(number), "question": context[5:20], "context": context, "answers": answers}


@pytest.mark.slow
@pytest.mark.parametrize("counts", [(400, 1_600), pytest.param((400, 3_200), marks=pytest.mark.soak)])
def test_several_times_the_questions_are_evaluated_in_the_same_memory(counts: tuple[int, int], checkout: Path) -> None:
    task = tiny.TASK.with_(kind="span", labels=(), metric="f1", language="ja", unanswerable=True)
    tiny.classifier(checkout / "artifacts/models/it", "span")
    task.save(checkout / "artifacts/models/it")
    check = {"replace": {"料理": "映画"}, "at_least": 0.0}
    entry = {"task": "it", "slices": {"katakana": "[ァ-ヴ]"}, "behaviour": {"other words": check}}
    Path("params.yaml").write_text(yaml.safe_dump({"resources": {"threads": 1}, "evaluate": {"it": entry}}))
    peaks = []
    for count in counts:
        rows = tables.batches(map(span, range(count)), schema.ROWS["span"])
        tables.write(Path("artifacts/rows/it/test.parquet"), rows, schema.ROWS["span"])
        peaks.append(peak("evaluate"))
        assert json.loads(Path("artifacts/metrics/it.json").read_text())["rows"] == count
    # A row's windows, offsets, logits and spans took 200 KiB when the split was one table. Its id, its answers and its
    # numbers stay, and oneDNN keeps memory for each new shape of a part's last batch.
    growth = (peaks[1] - peaks[0]) / (counts[1] - counts[0])
    assert growth < 40, f"{growth:.1f} KiB a row"
