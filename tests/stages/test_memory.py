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
def test_five_times_the_text_is_encoded_in_the_same_memory(checkout: Path) -> None:
    tiny.tokenizer(checkout / "vocab")
    params = {"resources": {"threads": 1}, "encode": {"it": {"task": "it", "vocab": "vocab", "max_length": 32}}}
    Path("params.yaml").write_text(yaml.safe_dump(params))
    peaks = []
    for count in (3_000, 15_000):  # the smaller has several row groups too: fewer rows than fill one take less
        rows = ({"id": str(i), "text": (TEXT * 2)[i * 37 % len(TEXT) :][:4000]} for i in range(count))
        tables.write(
            Path("artifacts/rows/it/train.parquet"), tables.batches(rows, schema.ROWS["text"]), schema.ROWS["text"]
        )
        Task("it", "text", splits=("train",)).save(Path("artifacts/rows/it"))
        peaks.append(peak("encode"))
    tokens = json.loads(Path("artifacts/encoded/it/encoding.json").read_text())["tokens"]["train"]
    assert tokens > 10_000_000
    assert peaks[1] < 1.1 * peaks[0]
