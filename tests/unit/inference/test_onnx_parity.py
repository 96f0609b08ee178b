"""How far ONNX may be from torch: in floats by its worst row. test_onnx_int8.py has what int8 layers may."""

from pathlib import Path

import numpy as np
import pytest

from pipelines.core.errors import InputError
from pipelines.export import onnx_export
from pipelines.inference import runtimes
from tests.support import tiny
from tests.support.off_by import ONE, Off

pytestmark = pytest.mark.slow


def test_floats_agree_in_every_row(checkout: Path) -> None:
    folder, out = tiny.classifier(checkout / "model"), checkout / "onnx"
    out.mkdir()
    with pytest.raises(InputError, match=r"model: ONNX and torch differ by \S+ in a logit; 1\.00e-12 is allowed"):
        onnx_export.export(folder, out, 18, 1e-12)
    native = runtimes.Torch(folder)
    assert onnx_export.parity(native, runtimes.Onnx(out)) < onnx_export.EXACT
    assert onnx_export.parity(native, Off(out, 0.01, ONE)) == pytest.approx(0.01, abs=1e-4)
    assert np.isnan(onnx_export.parity(native, Off(out, np.nan, ONE)))
