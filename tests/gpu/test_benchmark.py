"""The benchmark of a GPU runs to its end, in tiny sizes where there is none, and says which device it was."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.conftest import CUDA
from tests.support.places import ROOT

pytestmark = [pytest.mark.gpu, pytest.mark.slow]


def test_the_benchmark_runs(tmp_path: Path) -> None:
    call = [sys.executable, "benchmarks/gpu.py", "--quick", "--json", str(tmp_path / "gpu.json")]
    here = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
    done = subprocess.run(call, cwd=ROOT, env=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads((tmp_path / "gpu.json").read_text())
    claims = {claim["name"]: claim for claim in result["claims"]}
    assert claims["predictions_packed_bf16_equal_to_padded_fp32"]["ok"]
    assert claims["loss_relative_difference"]["ok"]
    assert ("host_waits_in_5_steps" in claims) == CUDA
    assert ("no GPU" in result["device"]) != CUDA
    assert all(claim["measured"] > 0 for name, claim in claims.items() if name.endswith("tokens_per_second"))
