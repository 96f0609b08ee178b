"""Pictures are the same for the same numbers."""

import re
from collections.abc import Callable

import matplotlib
import pytest

from pipelines.reports import plots, point_labels
from pipelines.reports.frontier import Point, frontier


def test_a_picture_is_the_same_bytes_for_the_same_numbers() -> None:
    picture = plots.confusion([[5, 1], [2, 4]], ["a", "b"])
    assert plots.confusion([[5, 1], [2, 4]], ["a", "b"]) == picture
    assert plots.confusion([[5, 1], [3, 4]], ["a", "b"]) != picture
    assert picture.startswith("<svg")


@pytest.mark.parametrize("letter", ["x", "W", "日"])
def test_a_long_label_leaves_room_for_the_matrix_and_the_names_of_its_axes(letter: str) -> None:
    """matplotlib warns where there is none, and a warning is an error here."""
    picture = plots.confusion([[5, 1], [2, 4]], [letter * 60, "b"])
    assert {"predicted", "gold"} <= set(re.findall(r">([^<>]+)</text>", picture))
    kept = letter * (14 if letter == "日" else 29)
    assert picture.count(f">{kept}…<") == 2
    plots.lengths_and_labels({"splits": {"a": {"rows": 1, "lengths": {"0": 1}, "labels": {letter * 900: 1}}}})


def crowd(count: int) -> list[Point]:
    """A teacher and so many smaller runs, most of them in one corner."""
    return [
        Point("teacher", 17.0, 0.8, is_teacher=True),
        *(Point(f"run-{i}", 4 + (i * 37 % 100) / 50, 0.79 + (i * 61 % 100) / 5000) for i in range(count)),
    ]


def test_a_frontier_is_the_same_bytes_and_names_what_is_not_beaten() -> None:
    points = crowd(25)
    picture = plots.pareto(points, "size, MB", "accuracy", 0.02)
    assert plots.pareto(points, "size, MB", "accuracy", 0.02) == picture
    named = set(re.findall(r">(teacher|run-\d+)<", picture))
    assert {point.name for point in frontier(points)} | {"teacher"} <= named
    assert "2 points below it" in picture
    assert "size, MB" in picture


def test_a_frontier_needs_no_teacher_and_no_width() -> None:
    picture = plots.pareto([Point("one", 2.5, 0.5), Point("二", 2.5, 0.5)], "latency, ms", "f1", 0.01)
    assert "below it" not in picture
    assert ">teacher<" not in picture


def test_small_names_meet_no_other() -> None:
    """Of names that need not be there, those are written that have room."""
    figure, axes = plots._figure(6, 4)
    named = [(point.name, point.x, point.score, False) for point in crowd(25)]
    axes.plot([x for _, x, _, _ in named], [y for _, _, y, _ in named], ".")
    point_labels.beside(figure, axes, named, [], plots.INK)
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axes.texts]
    assert 5 < len(boxes) <= 26
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:i])
        assert axes.bbox.x0 <= box.x0 < box.x1 <= axes.bbox.x1


RUNS = [Point("$$", 2.0, 0.5, is_teacher=True), Point("$x_$", 1.0, 0.6)]
SHIFT = {"statistic": "texts", "value": 0.2, "by_chance": 0.1, "limit": 0.3, "drifted": True}
WITH_DOLLARS: dict[str, Callable[[], str]] = {
    "confusion": lambda: plots.confusion([[5, 1], [2, 4]], ["$$", "$x_$"]),
    "pareto": lambda: plots.pareto(RUNS, "$$", "$x_$", 0.02),
    "ranked": lambda: plots.ranked({"$$": (0.5, 0.4, 0.6), "$x_$": (0.6, 0.5, 0.7)}, "accuracy", 0.5),
    "sweep": lambda: plots.sweep({"$$": [(1, 0.5), (2, 0.6)]}, "$x_$", "accuracy", 0.5),
    "learning": lambda: plots.learning([[1, {"loss": 2.0, "$$_loss": 2.1, "$x_$_loss": 1.0}]]),
    "drift": lambda: plots.drift({name: [{**SHIFT, "window": name}] for name in ("$$", "$x_$")}),
    "layers": lambda: plots.layers(["$$", "$x_$"], [("$$", "$x_$")]),
    "parallel coordinates": lambda: plots.parallel_coordinates({"$$": ["$x_$", "b"]}, [0.5, 0.6], "accuracy"),
    "lengths and labels": lambda: plots.lengths_and_labels(
        {"splits": {"$$": {"rows": 2, "lengths": {"0": 2}, "labels": {"$x_$": 1, "a": 1}}}}
    ),
}


@pytest.mark.parametrize("name", WITH_DOLLARS)
def test_a_name_with_dollars_is_written_as_it_is(name: str) -> None:
    """matplotlib would read it as a formula, and refuse what is none."""
    before = dict(matplotlib.rcParams)
    picture = WITH_DOLLARS[name]()
    assert "$$" in picture
    assert "$x_$" in picture
    assert dict(matplotlib.rcParams) | {"backend": "svg"} == before | {"backend": "svg"}, "nothing is left changed"
