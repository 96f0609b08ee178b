"""Which runtime a version is registered with: the faster one beyond the spread, or the one that is named."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.core.resources import Resources
from pipelines.measurement import interleaved, runtime_choice
from pipelines.measurement.interleaved import Compared, Cost

MODEL, EXPORTED, ROWS = Path("model"), Path("onnx"), Path("test.parquet")


def cost(p50_ms: float) -> Cost:
    return Cost(p50_ms, p50_ms, p50_ms, 1000 / p50_ms, 8, 1.0, 100.0)


@pytest.mark.parametrize(
    ("faster", "expected"),
    [
        ((2.0, 1.5, 3.0), "onnx"),
        ((0.5, 0.4, 0.9), "torch"),
        ((0.9, 0.8, 1.0), "onnx"),  # a tie within the spread
        ((1.0, 0.8, 1.3), "onnx"),
    ],
)
def test_the_faster_one_answers_and_a_tie_goes_to_onnx(
    faster: interleaved.Spread, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compare(folders: dict[str, Path], split_file: Path, threads: int, **briefly: Any) -> dict[str, Compared]:
        assert (folders, split_file, threads) == ({"torch": MODEL, "onnx": EXPORTED}, ROWS, 3)
        equal = (1.0, 1.0, 1.0)
        return {"torch": Compared(cost(4.0), equal, equal), "onnx": Compared(cost(2.00049), faster, equal)}

    monkeypatch.setattr(interleaved, "compare", compare)
    tags = runtime_choice.tags(MODEL, EXPORTED, ROWS, Resources(threads=3))
    assert tags["runtime"] == expected
    assert json.loads(tags["runtime_measured"]) == {
        "torch_p50_ms": 4.0,
        "onnx_p50_ms": 2.0,
        "onnx_faster": dict(zip(("median", "least", "greatest"), faster, strict=True)),
        "threads": 3,
    }


@pytest.mark.parametrize(
    ("named", "exported", "expected"),
    [("torch", EXPORTED, "torch"), ("onnx", EXPORTED, "onnx"), ("auto", None, "torch"), ("onnx", None, "torch")],
)
def test_what_is_named_or_the_only_one_is_not_measured(
    named: Any, exported: Path | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interleaved, "compare", lambda *args, **more: pytest.fail("measured"))
    assert runtime_choice.tags(MODEL, exported, ROWS, Resources(runtime=named)) == {"runtime": expected}
