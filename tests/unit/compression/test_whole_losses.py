"""The losses of methods that read states, whole, beside NumPy: every term with its weight, its layers and its rows.

The student is what `states.see` says of it, and the teacher what a record of it says: random numbers, and each number
that must not count is one that would show.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from pipelines.compression import states, transfer
from pipelines.compression.methods import distilbert, pkd, tinybert
from pipelines.models.batch import IGNORE, Batch

RNG = np.random.default_rng(9)
LENGTHS, LABELS = (5, 3, 4), (2, IGNORE, 0)  # of three rows; the second has no label, so it teaches nothing
TAUGHT = (0, 2)  # the rows that count
ROWS, TOKENS, WIDTH, HEADS, SIZE, CLASSES = 3, 6, 5, 2, 3, 4
MASK = np.arange(TOKENS) < np.array(LENGTHS)[:, None]


def numbers(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def tensor(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.asarray(array, np.float32))


def batch() -> Batch:
    return {"attention_mask": torch.from_numpy(MASK.astype(np.int64)), "labels": torch.tensor(LABELS)}


class Student:
    """Logits (3, C), states (3, T, H) of the embeddings and of each layer, queries and keys (3, h, T, d) of each."""

    def __init__(self, layers: int) -> None:
        self.logits = 2 * numbers(ROWS, CLASSES)
        self.hidden = [numbers(ROWS, TOKENS, WIDTH) for _ in range(layers + 1)]
        self.attention = [
            (numbers(ROWS, HEADS, TOKENS, SIZE), numbers(ROWS, HEADS, TOKENS, SIZE)) for _ in range(layers)
        ]

    def scores(self, layer: int, row: int) -> np.ndarray:
        """Of the tokens of one row: (h, t, t)."""
        queries, keys = (heads[row, :, : LENGTHS[row]] for heads in self.attention[layer - 1])
        return np.einsum("hqd,hkd->hqk", queries, keys)

    def seen(self, attention: bool) -> states.ForwardStates:
        pairs = [(tensor(queries), tensor(keys)) for queries, keys in self.attention] if attention else []
        return states.ForwardStates(tensor(self.logits), tuple(map(tensor, self.hidden)), pairs)


class Teacher:
    """What a teacher of `layers` layers would say; `told` has what is asked for and nothing else."""

    def __init__(self, layers: int) -> None:
        self.logits = 2 * numbers(ROWS, CLASSES)
        self.hidden = [numbers(ROWS, TOKENS, WIDTH) for _ in range(layers + 1)]
        self.queries, self.keys = ([numbers(ROWS, TOKENS, HEADS * SIZE) for _ in range(layers)] for _ in range(2))

    def scores(self, layer: int, row: int) -> np.ndarray:
        """Of the tokens of one row: (h, t, t)."""
        parts = (
            states_of[layer - 1][row, : LENGTHS[row]].reshape(-1, HEADS, SIZE)
            for states_of in (self.queries, self.keys)
        )
        return np.einsum("qhd,khd->hqk", *parts)

    def told(self, hidden: tuple[int, ...] = (), first: tuple[int, ...] = (), attention: tuple[int, ...] = ()) -> Any:
        arrays = {"logits": self.logits}
        arrays |= {f"hidden.{layer}": self.hidden[layer] for layer in hidden}
        arrays |= {f"first.{layer}": self.hidden[layer][:, 0] for layer in first}
        arrays |= {f"queries.{layer}": self.queries[layer - 1] for layer in attention}
        arrays |= {f"keys.{layer}": self.keys[layer - 1] for layer in attention}
        return {name: tensor(array) for name, array in arrays.items()}


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[float, int]]:
    """The loss of a student without a model: `states.see` is tested beside it."""

    def of(loss: Any, student: Student, outputs: Any, model: Any = None) -> tuple[float, int]:
        monkeypatch.setattr(states, "see", lambda model, kind, batch, attention=False: student.seen(attention))
        total, count = loss(model, batch(), outputs, kind="single")
        return float(total.detach()), int(count)

    return of


def softmax(logits: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    powers = np.exp(logits / temperature - (logits / temperature).max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def soft(student: np.ndarray, teacher: np.ndarray, temperature: float) -> float:
    """Hinton et al. 2015, section 2, with the factor T^2."""
    return float(-(softmax(teacher, temperature) * np.log(softmax(student, temperature))).sum() * temperature**2)


def hard(student: Student) -> float:
    return sum(-np.log(softmax(student.logits[row])[LABELS[row]]) for row in TAUGHT)


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def test_the_distilbert_loss_agrees_with_numpy(lost: Any) -> None:
    """5 L_ce + 2 CE + L_cos of the last layers, weighed as the authors do, with the labels for masked tokens."""
    student, teacher = Student(2), Teacher(4)
    params = distilbert.Params(temperature=3.0)
    assert (params.soft, params.hard, params.cosine) == (5, 2, 1)
    expected = 2 * hard(student)
    for row in TAUGHT:
        expected += 5 * soft(student.logits[row], teacher.logits[row], 3.0)
        student_rows, teacher_rows = (model.hidden[-1][row, : LENGTHS[row]] for model in (student, teacher))
        expected += np.mean([1 - unit(s) @ unit(t) for s, t in zip(student_rows, teacher_rows, strict=True)])
    loss_found = lost(partial(distilbert.loss, params=params, last=4), student, teacher.told(hidden=(4,)))
    assert loss_found == (pytest.approx(expected, rel=1e-4), 2)


def test_the_pkd_loss_agrees_with_numpy(lost: Any) -> None:
    """(1 - alpha) CE + alpha L_DS + beta L_PT (eq. 8); layers 1 and 2 of three follow layers 2 and 4 of six."""
    student, teacher = Student(3), Teacher(6)
    taught = pkd.followed(6, 3, "skip")
    assert taught == (2, 4)
    params = pkd.Params(layers=3, alpha=0.2, beta=10.0, temperature=5.0)
    expected = 0.8 * hard(student)
    for row in TAUGHT:
        expected += 0.2 * soft(student.logits[row], teacher.logits[row], 5.0)
        pairs = [
            (student.hidden[student_layer][row, 0], teacher.hidden[teacher_layer][row, 0])
            for student_layer, teacher_layer in ((1, 2), (2, 4))
        ]
        expected += 10.0 * np.mean([(unit(s) - unit(t)) ** 2 for s, t in pairs])
    loss_found = lost(partial(pkd.loss, params=params, taught=taught), student, teacher.told(first=taught))
    assert loss_found == (pytest.approx(expected, rel=1e-4), 2)


@pytest.mark.parametrize("weight", [0.5, 0.0])
def test_the_loss_of_tinyberts_first_stage_agrees_with_numpy(weight: float, lost: Any) -> None:
    """L_embd + sum of L_hidn + L_attn (eq. 6 to 9); layers 1 and 2 follow layers 2 and 4, by matrices W_e and W_h."""
    student, teacher = Student(2), Teacher(4)
    model = tinybert.Projected.__new__(tinybert.Projected)
    torch.nn.Module.__init__(model)
    model.student, model.of_embeddings, model.of_layers = (
        None,
        torch.nn.Linear(5, 5, False),
        torch.nn.Linear(5, 5, False),
    )
    matrices = [linear.weight.detach().double().numpy().T for linear in (model.of_embeddings, model.of_layers)]
    assert not np.allclose(*matrices)
    expected = 0.0
    for row in TAUGHT:
        inside = np.s_[row, : LENGTHS[row]]
        for student_layer, teacher_layer in ((0, 0), (1, 2), (2, 4)):
            projected = student.hidden[student_layer][inside] @ matrices[student_layer > 0]
            expected += ((projected - teacher.hidden[teacher_layer][inside]) ** 2).mean()
        for student_layer, teacher_layer in ((1, 2), (2, 4)):
            expected += weight * ((student.scores(student_layer, row) - teacher.scores(teacher_layer, row)) ** 2).mean()
    outputs = teacher.told(hidden=(0, 2, 4), attention=(2, 4) if weight else ())
    loss_found = lost(partial(tinybert.inside, taught=(2, 4), attention=weight), student, outputs, model)
    assert loss_found == (pytest.approx(expected, rel=1e-4), 2)


@pytest.mark.parametrize("weight", [0.5, 0.0])
def test_the_loss_of_mobiles_first_stage_agrees_with_numpy(weight: float, lost: Any) -> None:
    """The sum over layers of L_FMT + L_AT (section 3.5): states' squared difference, attention's divergence."""
    student, teacher = Student(3), Teacher(3)
    expected = 0.0
    for row in TAUGHT:
        inside = np.s_[row, : LENGTHS[row]]
        for layer in (1, 2, 3):
            expected += ((student.hidden[layer][inside] - teacher.hidden[layer][inside]) ** 2).mean()
            q, p = (softmax(model.scores(layer, row)) for model in (student, teacher))
            expected += weight * (p * np.log(p / q)).sum(axis=-1).mean()
    outputs = teacher.told(hidden=(1, 2, 3), attention=(1, 2, 3) if weight else ())
    loss_found = lost(partial(transfer.inside, attention=weight), student, outputs)
    assert loss_found == (pytest.approx(expected, rel=1e-4), 2)
