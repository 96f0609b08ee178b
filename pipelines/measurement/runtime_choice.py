"""The choice of a version's runtime: the faster one on this machine, unless `resources.runtime` names one."""

import json
from pathlib import Path
from typing import Any

from pipelines.core.resources import Resources
from pipelines.measurement import interleaved

# enough for a ratio with its spread; for a small model it takes a few seconds, mostly to start torch
BRIEFLY: dict[str, Any] = {"rounds": 5, "starts": 1, "seconds": 0.25}


def tags(model: Path, exported: Path | None, split_file: Path, resources: Resources) -> dict[str, str]:
    """The tags of a version to register: `runtime`, and if both were measured `runtime_measured`.

    Args:
        model, exported: folders of the same model for torch and ONNX Runtime; without an export, torch is chosen.
        split_file: rows of the model's kind; both runtimes predict them in turn.
    """
    if not exported:
        return {"runtime": "torch"}
    if resources.runtime != "auto":
        return {"runtime": resources.runtime}
    compared = interleaved.compare({"torch": model, "onnx": exported}, split_file, threads=resources.threads, **BRIEFLY)
    faster = compared["onnx"].faster
    measured = {
        "torch_p50_ms": round(compared["torch"].cost.p50_ms, 3),
        "onnx_p50_ms": round(compared["onnx"].cost.p50_ms, 3),
        "onnx_faster": dict(zip(("median", "least", "greatest"), (round(ratio, 3) for ratio in faster), strict=True)),
        "threads": resources.threads,
    }
    # ONNX Runtime wins ties, since it needs neither torch nor transformers
    runtime = "torch" if faster[2] < 1 else "onnx"
    return {"runtime": runtime, "runtime_measured": json.dumps(measured, separators=(",", ":"))}
