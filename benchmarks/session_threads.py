"""Threads of one call in ONNX Runtime: a title alone, two callers at once, and what a call leaves behind.

A service has copies of a model whose calls have one thread, and whose calls have one for each core. The threads of a
call spin while they wait for work, or sleep. All give the same bits, which is checked.
"""

import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import harness
import numpy as np
import onnxruntime
import pyarrow as pa
import serve

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from pipelines.core.threads import used
from pipelines.inference.predictor import Predictor
from pipelines.inference.runtimes import ONNX_FILE

SPIN, STOP = "session.intra_op.allow_spinning", "session.force_spinning_stop"
ONE, SLEEP, SPINNING, STOPPED = "one thread", "all, which sleep", "all, which spin", "all, which spin until the end"
ENTRIES = {ONE: {SPIN: "0"}, SLEEP: {SPIN: "0"}, SPINNING: {}, STOPPED: {STOP: "1"}}
PAUSE = 0.005  # seconds between two calls
CALLERS = 2


def predictor(folder: Path, name: str) -> Predictor:
    """The model with a session of its own."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1 if name == ONE else used()
    for key, value in ENTRIES[name].items():
        options.add_session_config_entry(key, value)
    model = Predictor.load(folder, "onnx", threads=1)
    model.runtime.session = onnxruntime.InferenceSession(folder / ONNX_FILE, options)  # type: ignore[union-attr]
    return model


def one_by_one(model: Predictor, encoded: list[pa.RecordBatch]) -> None:
    for title in encoded:
        model.forward([title])


def at_once(model: Predictor, encoded: list[pa.RecordBatch]) -> None:
    """Each of two callers has half of the titles, one a call."""
    with ThreadPoolExecutor(CALLERS) as callers:
        list(callers.map(lambda title: model.forward([title]), encoded))


def core_seconds(model: Predictor, encoded: list[pa.RecordBatch]) -> float:
    """Seconds of a core for a title, with a pause after each."""
    start = time.process_time()
    for title in encoded:
        model.forward([title])
        time.sleep(PAUSE)
    return (time.process_time() - start) / len(encoded)


def main() -> None:
    options = harness.arguments(__doc__ or "")
    rounds = 5 if options.quick else 21
    with tempfile.TemporaryDirectory() as folder:
        exported = serve.model(Path(folder))
        models = {name: predictor(exported, name) for name in ENTRIES}
    encoded = [models[ONE].encode(pa.table({"text": [title]})) for title in serve.titles()]
    answers = {name: np.stack([model.forward([title])[0][0] for title in encoded]) for name, model in models.items()}
    assert all((answer == answers[ONE]).all() for answer in answers.values()), "a title has the same bits everywhere"

    of_one = harness.in_turn({name: partial(one_by_one, model, encoded) for name, model in models.items()}, rounds)
    of_two = harness.in_turn({name: partial(at_once, model, encoded) for name, model in models.items()}, rounds)
    cores: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(rounds):
        for name, model in models.items():
            cores[name].append(core_seconds(model, encoded))
    claims = []
    for name in (SLEEP, SPINNING, STOPPED):
        claims.append(harness.ratio(f"a title alone: {name}, against {ONE}", None, of_one[ONE], of_one[name]))
        claims.append(harness.ratio(f"two callers: {name}, against {ONE}", None, of_two[ONE], of_two[name]))
        claims.append(
            harness.ratio(f"core seconds with pauses: {name}, in those of {ONE}", None, cores[name], cores[ONE])
        )
    harness.report(claims, ("onnxruntime",), options.json)


if __name__ == "__main__":
    main()
