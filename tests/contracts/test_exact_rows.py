"""An exported model answers a row with the same bits alone and beside any others.

test_exported_variants has the methods, test_kinds_and_families the kinds.
"""

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
from tests.support import exported, kinds

FAMILIES = ("bert", "roberta", "albert", "electra", "distilbert", "mobilebert", "deberta-v2", "xlnet")


@pytest.mark.slow
@pytest.mark.parametrize(
    "family", [pytest.param(family, marks=[pytest.mark.soak] if family != "bert" else []) for family in FAMILIES]
)
def test_a_row_has_the_same_bits_in_any_company(family: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    onnx = exported.of_teacher(tmp_path_factory, family) / "onnx"
    predictor = Predictor.load(onnx)
    assert predictor.runtime.batching == ANY
    assert row_exactness.largest_difference(predictor, sequences=100, partitions=10) == 0
    rows = kinds.rows("single")
    alone = [predictor.predict(rows.slice(i, 1)) for i in range(rows.num_rows)]
    rng = np.random.default_rng(7)
    for size in (2, 3, 8, 24):
        numbers = rng.permutation(rows.num_rows)[:size]
        assert predictor.predict(rows.take(numbers)).equals(pa.concat_tables([alone[i] for i in numbers]))
    in_two_threads = Predictor.load(onnx, threads=2).predict(rows)
    assert in_two_threads.equals(pa.concat_tables(alone)), "in two threads"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "head", "pooling"),
    [("single", "native", "mean"), ("pair", "linear", "compare"), ("regression", "mlp", "mean")],
)
def test_a_row_whose_tokens_are_added_up_has_the_same_bits(
    kind: str, head: str, pooling: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Alone and beside any others, in one thread and in two."""
    onnx = exported.of_teacher(tmp_path_factory, "modernbert", kind, head, pooling) / "onnx"
    predictor = Predictor.load(onnx)
    one, two = (Predictor.load(onnx, threads=count) for count in (1, 2))
    assert predictor.runtime.batching == ANY
    for alone in (one, two):
        assert row_exactness.largest_difference(one, sequences=100, partitions=10, alone=alone) == 0


@pytest.mark.slow
def test_an_int8_row_has_the_same_bits_in_any_company(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    predictor = Predictor.load(exported.of_teacher(tmp_path_factory, "bert", method="dynamic_int8") / "onnx")
    assert predictor.runtime.batching == ANY
    assert row_exactness.largest_difference(predictor, sequences=100, partitions=10) == 0


@pytest.mark.slow
def test_the_check_finds_a_model_that_is_not_exact(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here a layer rounds its inputs by the range of the whole batch."""

    def by_batch(layer: int8_layers.Dynamic, x: torch.Tensor) -> torch.Tensor:
        step = x.abs().max() / int8.STEPS
        return layer.plus_bias(torch.round(x / step) @ layer.weight.float() * layer.scale * step)

    rounded = exported.of_teacher(tmp_path_factory, "bert", method="dynamic_int8") / "dynamic_int8"
    monkeypatch.setattr(int8_layers.Dynamic, "forward", by_batch)
    (checkout / "onnx").mkdir()
    onnx_export.export(rounded, checkout / "onnx", 18)
    predictor = Predictor.load(checkout / "onnx")
    assert row_exactness.largest_difference(predictor) > 0
    monkeypatch.setattr(predictor.runtime, "batching", ALONE)
    assert row_exactness.largest_difference(predictor) == 0
