"""Whether OpenVINO earns a place beside ONNX Runtime: the same exported graphs, on one thread, asked in turn.

    uv pip install --no-deps --target state/openvino openvino==2026.4.0 openvino-telemetry
    PYTHONPATH=state/openvino python benchmarks/openvino_runtime.py ROWS.parquet artifacts/onnx/NAME ...

A graph of floats and one of integers answer rows one at a time, and many rows at once, through the project's predictor;
only what computes the logits differs. A ratio above 1 says that OpenVINO is faster.
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import harness
import numpy as np
import openvino
import pyarrow.parquet as pq

from pipelines.core import threads
from pipelines.inference.predictor import Predictor

SINGLES, TOGETHER = 100, 400
AIM = 1.2  # what a third runtime, of 178 MB, must be faster by


class OpenVino:
    """ONNX Runtime's place in a predictor."""

    def __init__(self, folder: Path, inner: Any) -> None:
        self.task, self.positions, self.vocab_size = inner.task, inner.positions, inner.vocab_size
        core = openvino.Core()
        # without the last it computes in bfloat16 where the CPU can, which moves scores by 0.02
        options = {"INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
        self.model = core.compile_model(core.read_model(folder / "model.onnx"), "CPU", options)
        self._names = {name for port in self.model.inputs for name in port.get_names()}

    def logits(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
        known = {name: array for name, array in inputs.items() if name in self._names}
        return np.array(self.model(known)["logits"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    threads.use(1)
    claims = []
    for folder in options.folders:
        ours, other = Predictor.load(folder), Predictor.load(folder)
        other.runtime = OpenVino(folder, other.runtime)
        table = pq.read_table(options.rows)
        spread = [
            table.take(np.linspace(0, len(table) - 1, min(n, len(table))).astype(int)) for n in (SINGLES, TOGETHER)
        ]
        apart = np.abs(scores(ours, spread[0]) - scores(other, spread[0])).max()
        print(f"{folder.name}: the greatest difference of a score is {apart:.2g}")
        for what, ask in (("one_row", alone), ("many_rows", together)):
            contenders = {"ort": partial(ask, ours, spread), "ov": partial(ask, other, spread)}
            seconds = harness.in_turn(contenders, options.rounds + 1)
            rounds = {name: times[1:] for name, times in seconds.items()}  # the first has graphs to build
            claims.append(
                harness.ratio(f"{folder.name}_{what}_openvino_vs_onnxruntime", AIM, rounds["ort"], rounds["ov"])
            )
    harness.report(claims, ("openvino", "onnxruntime"), options.json)


def scores(predictor: Predictor, rows: Any) -> np.ndarray:
    column = "scores" if "scores" in predictor.predict(rows).column_names else "value"
    return np.array(predictor.predict(rows).column(column).to_pylist())


def alone(predictor: Predictor, spread: list[Any]) -> None:
    for i in range(len(spread[0])):
        predictor.predict(spread[0].slice(i, 1))


def together(predictor: Predictor, spread: list[Any]) -> None:
    predictor.predict(spread[1])


if __name__ == "__main__":
    main()
