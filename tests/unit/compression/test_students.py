"""Students: the sizes that were asked for, and the teacher's own weights where they were taken over."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pipelines.checkpoints import new_head
from pipelines.compression import students
from pipelines.models import backbones, shapes
from tests.support import tiny
from tests.support.kinds import FAMILIES, TASKS


def teacher(family: str, place: Path, layers: int = 4) -> Any:
    source = tiny.of_family(family, place / "encoder", layers=layers)
    torch.manual_seed(2)
    return new_head.for_task(source, TASKS["single"]).eval()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_narrow_student_keeps_the_proportions_of_its_family(family: str, checkout: Path) -> None:
    source = teacher(family, checkout)
    student = students.build(source, {"layers": 3, "hidden_size": 16}, range(3), 1)
    student_config, config = backbones.encoder(student).config, backbones.encoder(source).config
    assert students.depth(student) == 3
    assert student_config.hidden_size == 16
    heads = config.num_attention_heads
    assert student_config.num_attention_heads == (heads if family == "mobilebert" else heads // 2)
    name = next(name for name in students.FEED_FORWARD if hasattr(student_config, name))
    assert getattr(student_config, name) == getattr(config, name) // 2
    assert backbones.encoder(source).config.hidden_size == 32, "the teacher's config stays as it is"
    again = students.build(source, {"layers": 3, "hidden_size": 16}, range(3), 1)
    assert backbones.digest(again) == backbones.digest(student)


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "albert"])
def test_layers_and_all_around_them_are_the_teachers(family: str, checkout: Path) -> None:
    source = teacher(family, checkout)
    student = students.build(source, {"layers": 2}, [0, 2], 1)
    students.take_over(student, source, [0, 2])
    for mine, theirs in ((0, 0), (1, 2)):
        student_layer, source_layer = (
            backbones.layers(model)[i].state_dict() for model, i in ((student, mine), (source, theirs))
        )
        assert student_layer
        assert all(tensor.equal(source_layer[name]) for name, tensor in student_layer.items())
    whole, around = source.state_dict(), 0
    inside = ("layer.", "layers.")
    for name, tensor in student.state_dict().items():
        if not any(part in name for part in inside):
            assert tensor.equal(whole[name]), name
            around += 1
    assert around >= 3


def test_a_shallow_albert_has_all_of_the_teachers_weights(checkout: Path) -> None:
    source = teacher("albert", checkout)
    student = students.shallower(SimpleNamespace(teacher=source, seed=1), [0, 2])  # type: ignore[arg-type]
    assert students.depth(student) == 2
    assert backbones.digest(student) == backbones.digest(source)


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ([0, 2, 4], [0, 1, 2]),
        ([0, 1], [0]),
        ([0, 1, 2], [0, 1]),
        ([0, 2, 3], [0, 1, 1]),
        ([0, 1, 2, 3], [0, 1]),
        ([4, 5], [2]),
        ([5], [2]),
    ],
)
def test_each_layer_of_a_shallow_albert_is_the_one_that_it_was(
    layers: list[int], expected: list[int], checkout: Path
) -> None:
    """Of six layers in three groups: as few groups as can be, each with the weights of the teacher's group."""
    torch.manual_seed(2)
    source = teacher("albert", checkout)
    config = source.config
    config.num_hidden_layers, config.num_hidden_groups = 6, 3
    source = type(source)(config).eval()
    student = students.shallower(SimpleNamespace(teacher=source, seed=1), layers)  # type: ignore[arg-type]
    student_layers, theirs = (backbones.layers(model) for model in (student, source))
    assert students.depth(student) == len(layers)
    assert len(student_layers) == len(expected)
    for layer, number in zip(student_layers, expected, strict=True):
        assert backbones.digest(layer) == backbones.digest(theirs[number])
    passed = [expected[group] for group in shapes.divided(len(layers), len(expected))]
    assert passed == [shapes.divided(6, 3)[number] for number in layers]


def test_kinds_of_layers_are_those_of_the_layers_that_stay(checkout: Path) -> None:
    source = teacher("modernbert", checkout)
    types = ["full_attention", "sliding_attention", "full_attention", "sliding_attention"]
    source.config.layer_types = types
    for layers, expected in (([0, 3], [types[0], types[3]]), ([0, 2], [types[0], types[2]])):
        student = students.build(source, {"layers": 2}, layers, 1)
        assert student.config.layer_types == expected
        assert [layer.attention_type for layer in backbones.layers(student)] == expected
