"""An export whose answers are off on purpose."""

from pathlib import Path

import numpy as np

from pipelines.inference import runtimes

ONE, ALL = slice(1), slice(None)


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
