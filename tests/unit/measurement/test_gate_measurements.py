"""How the gate compares two versions' latency, and measures one."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.core import paths
from pipelines.entries.evaluate import Evaluate
from pipelines.measurement import gate_measurements, interleaved
from pipelines.measurement.interleaved import Compared, Cost
from tests.support import tiny


def test_both_models_are_measured_in_turn_and_the_champion_is_the_reference(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparisons: list[Any] = []

    def compare(folders: dict[str, Path], split_file: Path, threads: int, **_: Any) -> dict[str, Compared]:
        comparisons.append((list(folders.items()), split_file, threads))
        cost = Cost(8, 9, 9, 1, 1, 1, 1)  # a median of other moments than those of the ratio
        return {
            "champion": Compared(cost, (1, 1, 1), (1, 1, 1)),
            "challenger": Compared(cost, (0.5, 0.4, 1), (1, 1, 1)),
        }

    monkeypatch.setattr(interleaved, "compare", compare)
    ratio = gate_measurements.latency_ratio(Path("new"), Path("old"), Evaluate(task="rows", split="dev"), threads=3)
    assert ratio == 2
    folders = [("champion", Path("old")), ("challenger", Path("new"))]
    assert comparisons == [(folders, paths.rows("rows") / "dev.parquet", 3)]


def test_a_slice_without_a_score_has_0_in_the_gate(checkout: Path) -> None:
    """Matthews' correlation of rows with one label says nothing about the model."""
    folder, rows = tiny.classifier(checkout / "model"), paths.rows("rows")
    rows.mkdir(parents=True)
    tiny.of_kind("single").with_(metric="matthews").save(rows)
    labels = [tiny.LABELS[i % 2] for i in range(8)]
    texts = [f"{label} {i}" for i, label in enumerate(labels)]
    pq.write_table(pa.table({"id": [*"abcdefgh"], "text": texts, "label": labels}), rows / "dev.parquet")
    entry = Evaluate(task="rows", split="dev", slices={"one label": f"^{tiny.LABELS[0]}"})
    assert gate_measurements.measure(folder, entry, approved=False).slices["one label"] == 0
    of_kind = gate_measurements.measure(folder, Evaluate(task="rows", split="dev"), approved=False).slices
    assert of_kind
    assert all(name.endswith(" characters") for name in of_kind), "a gate may name them without a pattern"
