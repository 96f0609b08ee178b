"""An export with wrong logits, on purpose."""

from pathlib import Path

import numpy as np

from pipelines.inference import runtimes

ONE, ALL = slice(1), slice(None)


class Off(runtimes.Onnx):
    """An export whose logits are off by `error`, in the first row of a batch or in all rows."""

    def __init__(self, folder: Path, error: float, rows: slice) -> None:
        self.error, self.rows = 0.0, rows  # opening an export computes two rows, without the error
        super().__init__(folder)
        self.error = error

    def logits(self, batch: runtimes.Inputs) -> np.ndarray:
        logits = super().logits(batch)
        if len(logits) > 1:
            logits[self.rows] += self.error
        return logits
