"""An exported model answers a row with the same bits alone and in any company.

test_exported_variants has the methods, test_kinds_and_families the kinds.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from pipelines.export import int8_layers, onnx_export
from pipelines.inference.predictor import Predictor
from pipelines.inference.runtimes import ALONE, ANY
from pipelines.measurement import row_exactness
from pipelines.models.quantization import int8
from tests.support import compressed, kinds
from tests.support.places import ROOT

FAMILIES = ("bert", "roberta", "albert", "electra", "distilbert", "mobilebert", "deberta-v2")  # xlnet has no export


@pytest.mark.slow
@pytest.mark.parametrize(
    "family", [pytest.param(family, marks=[pytest.mark.soak] if family != "bert" else []) for family in FAMILIES]
)
def test_a_row_has_the_same_bits_in_any_company(family: str, checkout: Path) -> None:
    folder = compressed.teacher(family, "single", checkout / "teacher")
    predictor = exported(folder, checkout / "onnx")
    assert predictor.runtime.batching == ANY
    assert row_exactness.largest_difference(predictor, sequences=100, partitions=10) == 0
    rows = kinds.rows("single")
    alone = [predictor.predict(rows.slice(i, 1)) for i in range(rows.num_rows)]
    rng = np.random.default_rng(7)
    for size in (2, 3, 8, 24):
        numbers = rng.permutation(rows.num_rows)[:size]
        assert predictor.predict(rows.take(numbers)).equals(pa.concat_tables([alone[i] for i in numbers]))
    code = (
        "import sys; from pathlib import Path; from tests.support import kinds\n"
        "from pipelines.inference.predictor import Predictor; from pipelines.core import threads\n"
        "threads.use(2)\n"
        "rows = Predictor.load(Path(sys.argv[1])).predict(kinds.rows('single')).to_pylist()\n"
        "print([row['score'].hex() for row in rows])"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", code, str(checkout / "onnx")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([table.column("score")[0].as_py().hex() for table in alone]), "in two threads"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "head", "pooling"),
    [("single", "native", "mean"), ("pair", "linear", "compare"), ("regression", "mlp", "mean")],
)
def test_a_row_whose_tokens_are_added_up_has_the_same_bits(kind: str, head: str, pooling: str, checkout: Path) -> None:
    """Alone and in any company, in one thread and in two."""
    folder = compressed.teacher("modernbert", kind, checkout / "teacher", head=head, pooling=pooling)
    predictor = exported(folder, checkout / "onnx")
    one, two = (Predictor.load(checkout / "onnx", threads=count) for count in (1, 2))
    assert predictor.runtime.batching == ANY
    for alone in (one, two):
        assert row_exactness.largest_difference(one, sequences=100, partitions=10, alone=alone) == 0


@pytest.mark.slow
def test_an_int8_row_has_the_same_bits_in_any_company(checkout: Path) -> None:
    folder = compressed.teacher("bert", "single", checkout / "teacher")
    compressed.compressed("dynamic_int8", folder, "single", checkout / "int8")
    predictor = exported(checkout / "int8", checkout / "onnx")
    assert predictor.runtime.batching == ANY
    assert row_exactness.largest_difference(predictor, sequences=100, partitions=10) == 0


@pytest.mark.slow
def test_the_check_finds_a_model_that_is_not_exact(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a layer rounds its inputs by the range of the whole batch."""

    def by_batch(layer: int8_layers.Dynamic, x: torch.Tensor) -> torch.Tensor:
        step = x.abs().max() / int8.STEPS
        return layer.plus_bias(torch.round(x / step) @ layer.weight.float() * layer.scale * step)

    folder = compressed.teacher("bert", "single", checkout / "teacher")
    compressed.compressed("dynamic_int8", folder, "single", checkout / "int8")
    monkeypatch.setattr(int8_layers.Dynamic, "forward", by_batch)
    predictor = exported(checkout / "int8", checkout / "onnx")
    assert row_exactness.largest_difference(predictor) > 0
    monkeypatch.setattr(predictor.runtime, "batching", ALONE)
    assert row_exactness.largest_difference(predictor) == 0


def exported(folder: Path, out: Path) -> Predictor:
    out.mkdir()
    onnx_export.export(folder, out, 18)
    return Predictor.load(out)
