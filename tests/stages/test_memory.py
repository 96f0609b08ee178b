"""Memory does not grow with the corpus."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pipelines.core import schema, tables
from pipelines.core.task import Task
from tests import tiny
from tests.conftest import ROOT

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
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT)})
    return int(done.stdout)


@pytest.mark.slow
def test_ten_times_the_text_is_encoded_in_the_same_memory(checkout: Path) -> None:
    tiny.tokenizer(checkout / "vocab")
    params = {"resources": {"threads": 1}, "encode": {"it": {"task": "it", "vocab": "vocab", "max_length": 32}}}
    Path("params.yaml").write_text(yaml.safe_dump(params))
    peaks = []
    for times in (1, 10):
        rows = ({"id": str(i), "text": (TEXT * 2)[i * 37 % len(TEXT) :][:4000]} for i in range(1000 * times))
        tables.write(
            Path("artifacts/rows/it/train.parquet"), tables.batches(rows, schema.ROWS["text"]), schema.ROWS["text"]
        )
        Task("it", "text", splits=("train",)).save(Path("artifacts/rows/it"))
        peaks.append(peak("encode"))
    tokens = json.loads(Path("artifacts/encoded/it/encoding.json").read_text())["tokens"]["train"]
    assert tokens > 5_000_000
    assert peaks[1] < 1.2 * peaks[0]
