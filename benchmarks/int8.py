"""int8 models against fp32 ones, both exported and in ONNX Runtime: same sequences, batches and threads.

Two shapes with random weights, which have no effect on the time: a student of four layers (TinyBERT's, H = 312) and
BERT-base (H = 768). Sequences have the lengths of titles (12 to 40 tokens) or 128 tokens. A CPU with VNNI multiplies
int8 faster, so the table names it.
"""

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import torch
from transformers import BertConfig, BertForSequenceClassification

from pipelines.checkpoints import folder as model_folder
from pipelines.core.task import Task
from pipelines.export import onnx_export
from pipelines.inference.predictor import Predictor
from pipelines.models import heads
from pipelines.models.quantization import int8, matrices, qdq

ENCODER = Path(__file__).resolve().parents[1] / "encoders/mini-ja"  # for its tokenizer
TASK = Task("titles", "single", ("sports", "films"), "accuracy", language="ja")
LENGTHS = {"titles": (12, 40), "128 tokens": (128, 128)}
AIMS = {"student": 1.6, "base": 2.2 if "vnni" in harness.cpu() else 1.3}
SHAPES: dict[str, dict[str, int]] = {
    "student": {"hidden_size": 312, "num_hidden_layers": 4, "num_attention_heads": 12, "intermediate_size": 1200},
    "base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
}
METHODS: dict[str, Callable[[Any], Any]] = {"fp32": lambda model: model, "dynamic_int8": int8.quantize}


def static(model: Any) -> Any:
    """int8 layers with fixed ranges; that they fit no data has no effect on the time."""
    for name, linear in matrices.linears(model).items():
        layer = qdq.QdqLinear.of(linear, int8.scales(linear.weight.detach()), *qdq.affine(-8.0, 8.0))
        matrices.replace(model, name, layer)
    return model.eval()


def exported(place: Path, shape: dict[str, int], method: Callable[[Any], Any]) -> Predictor:
    """A model of random weights with this shape, made smaller by `method`, and exported."""
    torch.manual_seed(0)
    vocabulary = BertConfig.from_pretrained(ENCODER).vocab_size
    config = BertConfig(vocab_size=vocabulary, **heads.names(TASK), **shape)
    model = BertForSequenceClassification(config).eval()
    tuned, out = place / "tuned", place / "exported"
    for folder in (tuned, out):
        folder.mkdir(parents=True)
    model_folder.save(method(model), tuned, ENCODER, TASK)
    onnx_export.export(tuned, out, 18, tolerance=1.0)
    return Predictor.load(out)


def main() -> None:
    options = harness.arguments(__doc__ or "")
    shapes = {"student": SHAPES["student"]} if options.quick else SHAPES
    claims = []
    with tempfile.TemporaryDirectory() as name:
        for shape, sizes in shapes.items():
            predictors = {
                method: exported(Path(name) / shape / method, sizes, make)
                for method, make in (METHODS | {"static_int8": static}).items()
            }
            for lengths, (least, most) in LENGTHS.items():
                claims += compared(shape, lengths, predictors, requests(least, most, 16 if options.quick else 64))
    harness.report(claims, ("onnxruntime", "torch"), options.json)


def requests(least: int, most: int, count: int) -> list[pa.RecordBatch]:
    rng = np.random.default_rng(0)
    ids = [rng.integers(5, 1000, length) for length in rng.integers(least, most + 1, count)]
    return [pa.RecordBatch.from_pydict({"input_ids": pa.array(ids, pa.list_(pa.uint32()))})]


def compared(
    shape: str, lengths: str, predictors: dict[str, Predictor], sequences: list[pa.RecordBatch]
) -> list[harness.Claim]:
    contenders = {method: partial(predictor.forward, sequences) for method, predictor in predictors.items()}
    seconds = harness.in_turn(contenders, 8)
    return [
        harness.ratio(
            f"{method} against fp32, {shape}, {lengths}",
            AIMS[shape] if method == "dynamic_int8" else None,
            seconds["fp32"][1:],
            seconds[method][1:],
        )
        for method in ("dynamic_int8", "static_int8")
    ]


if __name__ == "__main__":
    main()
