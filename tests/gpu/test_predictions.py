"""Predictions by torch on a GPU: bf16 without padding beside fp32, and batches that are too large for its memory."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    BertConfig,
    BertForMultipleChoice,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)

from pipelines.acceleration import apply
from pipelines.core.errors import UsageError
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.ragged import Ragged, model_inputs
from pipelines.core.task import Task
from pipelines.inference import runtimes
from tests.gpu.conftest import CUDA, FAMILIES, SHAPE, model, rows

pytestmark = pytest.mark.gpu
TASK = Task("titles", "single", ("a", "b", "c"), "accuracy")
DISTANCE = 0.02  # of a logit in bf16 from the same in fp32; they lie between -1 and 1


def runtime(family: str = "bert") -> runtimes.Torch:
    return runtimes.Torch.of(model(family).eval(), TASK)


def inputs(count: int = 20) -> runtimes.Inputs:
    data = rows()
    return model_inputs(Ragged(data.ids, data.offsets), np.arange(count), None, 0, 512)


@pytest.mark.parametrize("family", FAMILIES)
def test_bf16_predicts_without_padding_what_fp32_predicts(family: str, calls: list[int]) -> None:
    plain, packed = runtime(family), runtime(family)
    packed.precision = runtimes.BF16 if CUDA else runtimes.FP32
    packed.accelerations = apply.to_predictions(packed.model, in_bf16=True)
    batch = inputs()
    expected = plain.logits(batch)
    assert not calls, "padded rows have no need of it"
    for _ in range(2):
        assert np.abs(packed.logits(batch) - expected).max() < DISTANCE
    assert calls == [int(batch["attention_mask"].sum())] * 2 * SHAPE["num_hidden_layers"]


KINDS = {"regression": BertForSequenceClassification, "tagging": BertForTokenClassification}
KINDS |= {"span": BertForQuestionAnswering, "choice": BertForMultipleChoice}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_predicts_without_padding_what_padded_rows_predict(kind: str, calls: list[int]) -> None:
    torch.manual_seed(1)
    labels = {"regression": 1, "span": 2}.get(kind, 3)
    config = BertConfig(vocab_size=90, num_labels=labels, initializer_range=0.05, **SHAPE)
    plain: Any = KINDS[kind](config).eval()
    task = Task("rows", kind, ("B-a", "I-a", "O"), "accuracy")
    batch, packed = inputs(), runtimes.Torch.of(copy.deepcopy(plain), task)
    packed.precision = runtimes.BF16 if CUDA else runtimes.FP32
    packed.accelerations = apply.to_predictions(packed.model, in_bf16=True)
    apart = np.abs(packed.logits(batch) - runtimes.Torch.of(plain, task).logits(batch))
    if apart.ndim == 3:  # outputs at padding are not used
        apart = apart[batch["attention_mask"].astype(bool)]
    assert apart.max() < DISTANCE
    assert calls == [int(batch["attention_mask"].sum())] * SHAPE["num_hidden_layers"]


def test_a_batch_larger_than_the_memory_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, batch = runtime(), inputs()
    expected, compute, sizes = opened.logits(batch), opened._logits, list[int]()

    def little_memory(parts: runtimes.Inputs) -> Any:
        sizes.append(len(parts["input_ids"]))
        if sizes[-1] > 6:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return compute(parts)

    monkeypatch.setattr(opened, "_logits", little_memory)
    np.testing.assert_allclose(opened.logits(batch), expected, atol=1e-6)
    assert sizes == [20, 10, 5, 5, 10, 5, 5]


def test_a_row_larger_than_the_memory_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = runtime()

    def no_memory(parts: runtimes.Inputs) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(opened, "_logits", no_memory)
    with pytest.raises(torch.OutOfMemoryError):
        opened.logits(inputs())


def test_a_precision_that_cannot_be_is_named() -> None:
    folder = OpenedFolder.of(Path("nowhere"))
    with pytest.raises(UsageError, match="no precision 'fp16'"):
        runtimes.load(folder, "torch", precision="fp16")
    with pytest.raises(UsageError, match="the runtime onnx has no bf16"):
        runtimes.load(folder, "onnx", precision="bf16")
