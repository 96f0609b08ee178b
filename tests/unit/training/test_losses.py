"""Losses and held-out scores, beside the same by NumPy from the model's own logits."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pipelines.models.batch import IGNORE, Batch, Prediction
from pipelines.training import losses
from pipelines.training.batches import collate
from tests.support.kinds import model_and_rows

WEIGHTS = {"single": (0.5, 2.0, 1.0), "tagging": (0.5, 2.0, 1.0, 0.25, 3.0)}


def model_and_batch(kind: str, checkout: Path) -> tuple[Any, Batch]:
    """Six rows of several lengths, so that some are padded; the second one without a label."""
    model, data = model_and_rows(kind, "bert", checkout)
    batch = collate(data, np.arange(6), 0)
    assert batch["attention_mask"].sum(dim=1).unique().numel() > 1
    batch["labels"] = batch["labels"].clone()
    batch["labels"][1] = float("nan") if kind == "regression" else IGNORE
    return model.requires_grad_(False), batch


def log_softmax(logits: torch.Tensor) -> np.ndarray:
    numbers = logits.detach().double().numpy()
    return numbers - np.log(np.exp(numbers).sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["single", "tagging"])
def test_classification_loss_agrees_with_hand_work(kind: str, weighted: bool, smoothing: float, checkout: Path) -> None:
    model, batch = model_and_batch(kind, checkout)
    class_weights = WEIGHTS[kind] if weighted else ()
    total, count = losses.for_kind(kind, smoothing, class_weights)(model, batch, 0)
    inputs = {name: tensor for name, tensor in batch.items() if name != "labels"}
    right, log_probabilities = batch["labels"].flatten().numpy(), log_softmax(model(**inputs).logits)
    log_probabilities, classes = log_probabilities.reshape(-1, log_probabilities.shape[-1]), log_probabilities.shape[-1]
    weights, by_hand = np.array(class_weights or [1.0] * classes), 0.0
    for logs, label in zip(log_probabilities, right, strict=True):
        if label != IGNORE:
            share = np.full(classes, smoothing / classes)
            share[label] += 1 - smoothing
            by_hand -= float((share * weights * logs).sum())
    assert float(total) == pytest.approx(by_hand, rel=1e-4)
    assert int(count) == (right != IGNORE).sum() > 0


def test_regression_loss_agrees_with_hand_work(checkout: Path) -> None:
    model, batch = model_and_batch("regression", checkout)
    batch["labels"][2] = IGNORE  # -100 is a number like any other
    total, count = losses.for_kind("regression")(model, batch, 0)
    inputs = {name: tensor for name, tensor in batch.items() if name != "labels"}
    logits, right = model(**inputs).logits[:, 0].tolist(), batch["labels"].tolist()
    labelled = [i for i in range(6) if i != 1]
    assert float(total) == pytest.approx(sum((logits[i] - right[i]) ** 2 for i in labelled), rel=1e-4)
    assert int(count) == len(labelled)


def test_a_row_without_a_number_has_no_gradient() -> None:
    predicted = torch.tensor([[1.0], [2.0], [3.0]], requires_grad=True)
    losses.squared_error(predicted, torch.tensor([0.5, float("nan"), -100.0]))[0].backward()
    assert predicted.grad is not None
    assert predicted.grad[:, 0].tolist() == [1.0, 0.0, 206.0]


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_no_answer_lies_in_padding(smoothing: float, checkout: Path) -> None:
    model, batch = model_and_batch("span", checkout)
    total, count = losses.for_kind("span", smoothing)(model, batch, 0)
    output = model(**{name: tensor for name, tensor in batch.items() if name != "labels"})
    by_hand = 0.0
    for row in (i for i in range(6) if i != 1):
        length = int(batch["attention_mask"][row].sum())
        for logits, label in zip((output.start_logits, output.end_logits), batch["labels"][row].tolist(), strict=True):
            logs = log_softmax(logits[row, :length])
            by_hand -= float((1 - smoothing) * logs[label] + smoothing * logs.mean()) / 2
    assert float(total) == pytest.approx(by_hand, rel=1e-4)
    assert int(count) == 5


class Two:
    """Two batches of one objective with two predictions; of the second prediction some are not to be learned from."""

    words = torch.tensor([[2.0, 1.0, 0.0], [0.0, 0.0, 3.0], [1.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    order = torch.tensor([[1.0, 0.0], [0.0, 1.0]])

    def __len__(self) -> int:
        return 2

    def __getitem__(self, step: int) -> Batch:
        labels = torch.tensor([[0, 1, 0, 1], [0, 2, 0, 1]][step])
        return {"input_ids": torch.zeros(2, 4), "words": labels, "order": torch.tensor([0, IGNORE])}

    @classmethod
    def predict(cls, model: torch.nn.Module, batch: Batch) -> list[Prediction]:
        return [Prediction("mlm", cls.words, batch["words"]), Prediction("order", cls.order, batch["order"], 0.5)]

    @classmethod
    def losses(cls, step: int) -> tuple[float, float]:
        """The sum over four words, and over the one order that counts."""
        labels = cls()[step]["words"]
        return float(-log_softmax(cls.words)[range(4), labels].sum()), float(-log_softmax(cls.order)[0, 0])


def test_several_predictions_are_a_weighted_sum_of_means_for_every_row() -> None:
    model, batch = torch.nn.Linear(1, 1), Two()[0]
    words, order = Two.losses(0)
    total, count = losses.Pretraining(Two.predict)(model, batch, 0)
    assert (float(total), int(count)) == (pytest.approx(2 * (words / 4 + 0.5 * order), rel=1e-5), 2)
    total, count = losses.Pretraining(lambda *arguments: Two.predict(*arguments)[:1])(model, batch, 0)
    assert (float(total), int(count)) == (pytest.approx(words, rel=1e-5), 4)


def test_parts_of_a_batch_add_up_to_its_loss() -> None:
    """Whatever number of masked tokens a part has: 3 of 4 are in the first row."""
    labels = torch.tensor([[0, 2, 0], [1, IGNORE, IGNORE]])
    logits = torch.arange(18.0).reshape(2, 3, 3).sin()

    def predict(model: torch.nn.Module, batch: Batch) -> list[Prediction]:
        known, mine = batch["labels"] != IGNORE, logits[batch["row"]]
        words = Prediction("mlm", mine[known], batch["labels"][known], of="labels")
        return [words, Prediction("order", mine[:, 0], batch["row"], 0.5)]

    batch = {"input_ids": labels, "labels": labels, "row": torch.tensor([0, 1])}
    loss, model = losses.Pretraining(predict), torch.nn.Linear(1, 1)
    whole = loss(model, batch, 0)
    loss.expect(batch)
    halves = [loss(model, {name: tensor[row : row + 1] for name, tensor in batch.items()}, 0) for row in range(2)]
    for total, both in zip(whole, zip(*halves, strict=True), strict=True):
        assert float(total) == pytest.approx(float(sum(both)), rel=1e-5)


def test_held_out_scores_are_over_all_batches() -> None:
    words, order = (np.array(values) for values in zip(Two.losses(0), Two.losses(1), strict=True))
    scores = losses.held_out(torch.nn.Linear(1, 1), Two(), Two.predict)  # type: ignore[arg-type]
    assert scores == pytest.approx(
        {
            "mlm_loss": words.sum() / 8,
            "mlm_perplexity": np.exp(words.sum() / 8),
            "mlm_accuracy": 7 / 8,  # all but the second word of the first batch
            "order_loss": order.mean(),
            "order_perplexity": np.exp(order.mean()),
            "order_accuracy": 1.0,
        },
        abs=1e-5,
    )


def test_balanced_classes_count_alike() -> None:
    weights = losses.balanced(np.array([0, 0, 0, 1, -100]), 3)
    assert weights == pytest.approx((4 / 6, 2.0, 0.0))
    assert 3 * weights[0] == weights[1]
