"""Check that the weights of an exported model are finite.

A prediction for one row does not reveal a bad weight in the embedding of another word.
"""

from pathlib import Path

import numpy as np

from pipelines.core.errors import InputError, one_line, shown
from pipelines.inference.encoder_runtimes import MASK_HEAD_FILE
from pipelines.inference.runtimes import ONNX_FILE


def require(folder: Path) -> None:
    """Raise InputError if a weight of an export in `folder` is NaN or infinite.

    A cascade has two exports, and an encoder a graph for its masked-token head.
    """
    for name in (ONNX_FILE, MASK_HEAD_FILE):
        for path in sorted(folder.rglob(name)):
            _require(path)


def _require(path: Path) -> None:
    import onnx

    try:
        weights = [(each.name, onnx.numpy_helper.to_array(each)) for each in onnx.load(path).graph.initializer]
    except Exception as error:  # a damaged file raises errors of any type
        raise InputError(f"{path}: not an exported model ({one_line(error)}); was it cut off?") from None
    for name, weight in weights:
        # an attention mask's constant has one number, which may be infinite
        if weight.dtype.kind == "f" and (np.isnan(weight).any() or (weight.size > 1 and np.isinf(weight).any())):
            raise InputError(f"{path}: {shown(name)} holds NaN or infinity; its weights are damaged, export it again")
