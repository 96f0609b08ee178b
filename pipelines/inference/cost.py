"""What a model costs: parameters, bytes, and milliseconds on this machine."""

import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.evaluation.split import Split
from pipelines.inference.predictor import Predictor

SINGLE_ROWS = 50  # timed one at a time


def size(folder: Path) -> dict[str, int]:
    """Parameters and bytes of the safetensors in `folder`; a file of rounded weights says how many parameters it has.

    Their scales are bytes and no parameters, and several packed weights share a byte.
    """
    from safetensors import safe_open

    from pipelines.checkpoints.quantized import PARAMETERS

    parameters = size_bytes = 0
    for path in folder.glob("*.safetensors"):
        size_bytes += path.stat().st_size
        with safe_open(path, "numpy") as tensors:
            said = (tensors.metadata() or {}).get(PARAMETERS)
            shapes = [tensors.get_slice(name).get_shape() for name in tensors.keys()]  # noqa: SIM118
        parameters += int(said) if said else sum(map(math.prod, shapes))
    return {"parameters": parameters, "size_bytes": size_bytes}


def latency(predictor: Predictor, split: Split) -> dict[str, Any]:
    """Milliseconds for one row at a time, spread over the split, after a warm-up."""
    rows = split.spread(SINGLE_ROWS)
    singles = [rows.slice(i, 1) for i in range(rows.num_rows)]
    for row in singles[:5]:
        predictor.predict(row)
    times = []
    for row in singles:
        start = time.perf_counter()
        predictor.predict(row)
        times.append((time.perf_counter() - start) * 1000)
    p50, p95, p99 = np.quantile(times, [0.5, 0.95, 0.99])
    return {"p50": round(float(p50), 3), "p95": round(float(p95), 3), "p99": round(float(p99), 3)}
