"""Losses of the distillation methods beside the same in NumPy, row by row and token by token."""

from typing import Any

import numpy as np
import pytest
import torch

from pipelines.compression import distillation, transfer
from pipelines.compression.methods import bilstm_student, distilbert, pkd, tinybert
from pipelines.models.batch import IGNORE, Batch

RNG = np.random.default_rng(4)
LENGTHS = (5, 3, 4)
MASK = np.arange(6) < np.array(LENGTHS)[:, None]  # (B, T)
LABELS: dict[str, np.ndarray] = {
    "single": np.array([2, IGNORE, 0]),
    "choice": np.array([1, 2, IGNORE]),
    "regression": np.array([0.5, np.nan, IGNORE], np.float32),  # -100 is a number like any other
    "span": np.array([[1, 3], [0, 0], [IGNORE, IGNORE]]),
    "tagging": np.where(MASK & (np.arange(6) % 2 == 0), 1, IGNORE),
}
SHAPES = {"single": (3, 4), "choice": (3, 4), "regression": (3, 1), "span": (3, 6, 2), "tagging": (3, 6, 4)}
COUNTS = {"single": [1, 0, 1], "choice": [1, 1, 0], "regression": [1, 0, 1], "span": [1, 1, 0], "tagging": [3, 2, 2]}


def batch(kind: str) -> Batch:
    return {"attention_mask": torch.from_numpy(MASK.astype(np.int64)), "labels": torch.from_numpy(LABELS[kind])}


def two(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Logits of a student and of a teacher."""
    return RNG.normal(size=SHAPES[kind]) * 2, RNG.normal(size=SHAPES[kind]) * 2


def softened(logits: np.ndarray, temperature: float) -> np.ndarray:
    powers = np.exp(logits / temperature)
    return powers / powers.sum()


def crossed(student: np.ndarray, teacher: np.ndarray, temperature: float) -> float:
    """Hinton's loss of one distribution."""
    both = softened(teacher, temperature), softened(student, temperature)
    return float(-(both[0] * np.log(both[1])).sum() * temperature**2)


def by_hand(kind: str, student: np.ndarray, teacher: np.ndarray, temperature: float) -> float:
    total = 0.0
    for row, length in enumerate(LENGTHS):
        if kind == "tagging":
            learned = [place for place in range(6) if LABELS[kind][row, place] != IGNORE]
            total += sum(crossed(student[row, place], teacher[row, place], temperature) for place in learned)
        elif not COUNTS[kind][row]:
            continue
        elif kind == "span":
            ends = [(student[row, :length, end], teacher[row, :length, end]) for end in range(2)]
            total += sum(crossed(*pair, temperature) for pair in ends) / 2
        elif kind == "regression":
            total += float((student[row, 0] - teacher[row, 0]) ** 2)
        else:
            total += crossed(student[row], teacher[row], temperature)
    return total


def tensors(*arrays: np.ndarray) -> list[torch.Tensor]:
    return [torch.from_numpy(np.asarray(array, np.float32)) for array in arrays]


@pytest.mark.parametrize("temperature", [1.0, 4.0])
@pytest.mark.parametrize("kind", SHAPES)
def test_soft_targets_of_every_kind_agree_with_numpy(kind: str, temperature: float) -> None:
    student, teacher = two(kind)
    loss = distillation.soft_targets(kind, *tensors(student, teacher), batch(kind), temperature)
    assert float(loss) == pytest.approx(by_hand(kind, student, teacher, temperature), rel=1e-4)
    assert distillation.counts(kind, batch(kind)).tolist() == COUNTS[kind]


def test_the_factor_keeps_gradients_as_large_at_a_high_temperature() -> None:
    """Hinton et al. 2015, eq. 3 and 4: the gradient is about (z - v) / C at any high temperature, logits of mean 0."""
    student, teacher = (np.array([1.0, -2.0, 1.0]), np.array([0.5, 0.5, -1.0]))
    expected = (student - teacher) / 3
    for temperature in (50.0, 100.0):
        logits = torch.tensor(student, dtype=torch.float32, requires_grad=True)
        distillation.soft_cross_entropy(logits, *tensors(teacher), temperature).backward()
        assert logits.grad is not None
        assert logits.grad.numpy() == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize("kind", SHAPES)
def test_squared_logits_agree_with_numpy(kind: str) -> None:
    student, teacher = two(kind)
    squares, total = (student - teacher) ** 2, 0.0
    for row, length in enumerate(LENGTHS):
        if kind == "tagging":
            total += squares[row][LABELS[kind][row] != IGNORE].sum()
        elif kind == "span":
            total += squares[row, :length].sum() * COUNTS[kind][row]
        else:
            total += squares[row].sum() * COUNTS[kind][row]
    loss = distillation.squared(kind, *tensors(student, teacher), batch(kind))
    assert float(loss) == pytest.approx(total, rel=1e-4)


class Says(torch.nn.Module):
    """A model that gives these logits for whatever it reads."""

    def __init__(self, logits: np.ndarray) -> None:
        super().__init__()
        self.found = torch.from_numpy(logits.astype(np.float32))


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logits without a model: `states.logits` is tested beside it."""
    monkeypatch.setattr("pipelines.compression.states.logits", lambda model, kind, batch: model.found)


def test_the_whole_loss_of_soft_targets_agrees_with_hand_work(says: None) -> None:
    student, teacher = two("single")
    teacher_outputs = {"logits": tensors(teacher)[0]}
    total, count = distillation.soft_and_hard(
        Says(student), batch("single"), teacher_outputs, kind="single", temperature=3.0, soft=0.3
    )
    hard = -sum(np.log(softened(student[row], 1.0))[LABELS["single"][row]] for row in (0, 2))
    assert float(total) == pytest.approx(0.3 * by_hand("single", student, teacher, 3.0) + 0.7 * hard, rel=1e-4)
    assert int(count) == 2


def test_the_whole_losses_of_tang_and_of_the_last_stage_of_tinybert(says: None) -> None:
    student, teacher = two("choice")
    teacher_outputs = {"logits": tensors(teacher)[0]}
    total, count = bilstm_student.loss(Says(student), batch("choice"), teacher_outputs, kind="choice")
    assert float(total) == pytest.approx(((student - teacher)[:2] ** 2).sum(), rel=1e-4)
    assert int(count) == 2
    total, count = tinybert.prediction(Says(student), batch("choice"), teacher_outputs, kind="choice", temperature=1.0)
    assert float(total) == pytest.approx(by_hand("choice", student, teacher, 1.0), rel=1e-4)
    assert int(count) == 2


def hidden() -> tuple[np.ndarray, np.ndarray]:
    return RNG.normal(size=(3, 6, 5)), RNG.normal(size=(3, 6, 5))


def mask() -> torch.Tensor:
    return torch.from_numpy(MASK.astype(np.int64))


def test_distilbert_compares_directions_of_tokens() -> None:
    student, teacher = hidden()
    expected = []
    for row, length in enumerate(LENGTHS):
        pairs = zip(student[row, :length], teacher[row, :length], strict=True)
        expected.append(np.mean([1 - s @ t / np.linalg.norm(s) / np.linalg.norm(t) for s, t in pairs]))
    assert distilbert.cosine(*tensors(student, teacher), mask()).tolist() == pytest.approx(expected, rel=1e-4)
    assert distilbert.cosine(*tensors(3 * teacher, teacher), mask()).tolist() == pytest.approx([0, 0, 0], abs=1e-6)


def test_pkd_compares_states_of_unit_length() -> None:
    student, teacher = RNG.normal(size=(3, 2, 5)), RNG.normal(size=(3, 2, 5))
    expected = []
    for row in range(3):
        pairs = zip(student[row], teacher[row], strict=True)
        apart = [((s / np.linalg.norm(s) - t / np.linalg.norm(t)) ** 2).sum() for s, t in pairs]
        expected.append(sum(apart) / (2 * 5))  # eq. 7, over layers and dimensions
    assert pkd.patience(*tensors(student, teacher)).tolist() == pytest.approx(expected, rel=1e-4)
    assert pkd.patience(*tensors(7 * teacher, teacher)).tolist() == pytest.approx([0, 0, 0], abs=1e-6)


def test_tinybert_compares_states_and_attention_without_padding() -> None:
    student, teacher = hidden()
    expected = [((student - teacher)[row, :length] ** 2).mean() for row, length in enumerate(LENGTHS)]
    assert transfer.apart(*tensors(student, teacher), mask()).tolist() == pytest.approx(expected, rel=1e-4)
    student, teacher = RNG.normal(size=(3, 2, 6, 6)), RNG.normal(size=(3, 2, 6, 6))
    expected = [((student - teacher)[row, :, :length, :length] ** 2).mean() for row, length in enumerate(LENGTHS)]
    assert tinybert.attention_apart(*tensors(student, teacher), mask()).tolist() == pytest.approx(expected, rel=1e-4)


def test_mobile_compares_attention_by_its_divergence() -> None:
    """Sun et al. 2020, section 3.5, over the tokens of each row."""
    student, teacher = RNG.normal(size=(3, 2, 6, 6)) * 2, RNG.normal(size=(3, 2, 6, 6)) * 2
    expected = []
    for row, length in enumerate(LENGTHS):
        divergences = []
        for head in range(2):
            for token in range(length):
                p = softened(teacher[row, head, token, :length], 1.0)
                q = softened(student[row, head, token, :length], 1.0)
                divergences.append((p * np.log(p / q)).sum())
        expected.append(np.mean(divergences))
    assert transfer.divergence(*tensors(student, teacher), mask()).tolist() == pytest.approx(expected, rel=1e-4)
    assert transfer.divergence(*tensors(teacher + 3, teacher), mask()).tolist() == pytest.approx([0, 0, 0], abs=1e-5)


def test_a_row_of_several_sequences_has_the_mean_of_all_its_tokens() -> None:
    """One row with the three sequences as its choices."""
    student, teacher = hidden()
    inside = np.concatenate([(student - teacher)[row, :length] ** 2 for row, length in enumerate(LENGTHS)])
    together: Any = [rows[None] for rows in tensors(student, teacher)]
    assert transfer.apart(*together, mask()[None]).tolist() == pytest.approx([inside.mean()], rel=1e-4)
    student, teacher = RNG.normal(size=(3, 2, 6, 6)), RNG.normal(size=(3, 2, 6, 6))
    squares = (student - teacher) ** 2
    pairs = np.concatenate([squares[row, :, :n, :n].mean(axis=0).ravel() for row, n in enumerate(LENGTHS)])
    distances = tinybert.attention_apart(*tensors(student, teacher), mask()[None])
    assert distances.tolist() == pytest.approx([pairs.mean()], rel=1e-4)
