"""A student that errs in some rows: an export with another bias; and rows that it shares with its champion."""

import shutil
from pathlib import Path

import onnx
from onnx import numpy_helper

from pipelines.inference.runtimes import ONNX_FILE

BIAS = "classifier.layer.bias"  # the end of its name
WORDS = ("犬", "映画", "試合", "公開日", "監督", "予約", "延長", "新型")


def texts(count: int) -> list[str]:
    """Different texts; no two numbers have the same words."""
    return [
        "".join(WORDS[number // len(WORDS) ** place % len(WORDS)] for place in range(4)) + "が好き" * (number % 3)
        for number in range(count)
    ]


def student(champion: Path, out: Path, shift: float) -> Path:
    """A copy of an exported model whose first label has `shift` more in every row."""
    shutil.copytree(champion, out)
    model = onnx.load(out / ONNX_FILE)
    bias = next(tensor for tensor in model.graph.initializer if tensor.name.endswith(BIAS))
    shifted = numpy_helper.to_array(bias).copy()
    shifted[0] += shift
    bias.CopyFrom(numpy_helper.from_array(shifted, bias.name))
    onnx.save(model, out / ONNX_FILE)
    return out
