"""How far ONNX may be from torch: in floats by its worst row, where layers are int8 by its median row."""

from pathlib import Path

import numpy as np
import pytest

from pipelines.core.errors import InputError
from pipelines.inference import onnx_export, runtimes
from tests.support import tiny
from tests.support.quantizing import quantized, teacher

pytestmark = pytest.mark.slow


class Off(runtimes.Onnx):
    """An export whose logits are off by `error`: those of the first row of a batch, or of all rows."""

    def __init__(self, folder: Path, error: float, rows: slice) -> None:
        super().__init__(folder)
        self.error, self.rows = error, rows

    def logits(self, batch: runtimes.Inputs) -> np.ndarray:
        found = super().logits(batch)
        if len(found) > 1:
            found[self.rows] += self.error
        return found


ONE, ALL = slice(1), slice(None)


def test_floats_agree_in_every_row(checkout: Path) -> None:
    folder, out = tiny.classifier(checkout / "model"), checkout / "onnx"
    out.mkdir()
    with pytest.raises(InputError, match=r"model: ONNX and torch differ by \S+ in a logit; 1\.00e-12 is allowed"):
        onnx_export.export(folder, out, 18, 1e-12)
    native = runtimes.Torch(folder)
    assert onnx_export.parity(native, runtimes.Onnx(out)) < onnx_export.EXACT
    assert onnx_export.parity(native, Off(out, 0.01, ONE)) == pytest.approx(0.01, abs=1e-4)
    assert np.isnan(onnx_export.parity(native, Off(out, np.nan, ONE)))


@pytest.mark.parametrize("method", ["dynamic_int8", "q8bert"])
def test_int8_may_be_off_in_a_row_but_not_in_most(method: str, checkout: Path) -> None:
    folder, out = quantized(method, teacher("single", "bert", checkout)), checkout / "onnx"
    out.mkdir()
    onnx_export.export(folder, out, 18)
    native = runtimes.Torch(folder)
    assert onnx_export.parity(native, Off(out, 0.5, ONE)) < 0.01
    assert onnx_export.parity(native, Off(out, 0.5, ALL)) == pytest.approx(0.5, abs=0.05)
