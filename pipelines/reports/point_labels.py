"""Names beside the points of a picture: where they fit, and small ones only where there is room."""

from typing import Any, NamedTuple

import numpy as np

from pipelines.reports import tables

LARGE, SMALL = 8.0, 6.5  # of letters, in points of a 72nd of an inch
ROUND = 4.0  # what a marker takes to each side
# from a marker's middle to the near edge of its label, and which edge that is: -1 the left one or the lower
PLACES = (
    *((6, 5, -1), (6, -5, -1), (-6, 5, 1), (-6, -5, 1), (0, 7, 0), (0, -7, 0)),
    *((7, 15, -1), (7, -15, -1), (-7, 15, 1), (-7, -15, 1), (0, 17, 0), (0, -17, 0)),
)


class Box(NamedTuple):
    left: float
    low: float
    right: float
    high: float

    def meets(self, other: "Box") -> bool:
        return self.left < other.right and other.left < self.right and self.low < other.high and other.low < self.high

    def within(self, other: "Box") -> bool:
        return (
            other.left <= self.left and self.right <= other.right and other.low <= self.low and self.high <= other.high
        )


def beside(
    figure: Any,
    axes: Any,
    named: list[tuple[str, float, float, bool]],
    lines: list[tuple[float, float, float, float]],
    color: str,
) -> None:
    """Write each name beside its point, in their order; all else of the picture must be drawn.

    Args:
        named: name, x, y, and whether it must be there. The others are small, and left out where they have no room.
        lines: level and upright ones that no name should cross: from x, to x, from y, to y.
    """
    figure.draw_without_rendering()  # which settles where the axes lie
    inside = Box(*(axes.bbox.get_points() * 72 / figure.dpi).flatten())
    middles = _places(figure, axes, [(x, y) for _, x, y, _ in named])
    taken = [Box(x - ROUND, y - ROUND, x + ROUND, y + ROUND) for x, y in middles]
    for x, to_x, y, to_y in lines:
        (left, low), (right, high) = _places(figure, axes, [(x, min(y, to_y)), (to_x, max(y, to_y))])
        taken.append(Box(left - 0.5, low - 0.5, right + 0.5, high + 0.5))
    for (name, x, y, needed), middle in zip(named, middles, strict=True):
        size = LARGE if needed else SMALL
        boxes = [_box(name, size, middle, place) for place in PLACES]
        free = [i for i, box in enumerate(boxes) if box.within(inside) and not any(map(box.meets, taken))]
        if not (free or needed):
            continue
        right, up, edge = PLACES[free[0] if free else 0]
        axes.annotate(
            name,
            (x, y),
            xytext=(right, up),
            textcoords="offset points",
            ha={-1: "left", 0: "center", 1: "right"}[edge],
            va="bottom" if up > 0 else "top",
            fontsize=size,
            color=color,
        ).set_in_layout(False)
        taken.append(boxes[free[0] if free else 0])


def _places(figure: Any, axes: Any, places: list[tuple[float, float]]) -> np.ndarray:
    """(N, 2) points of the data, in 72nds of an inch from the picture's lower left corner."""
    return axes.transData.transform(places) * 72 / figure.dpi


def _box(name: str, size: float, middle: np.ndarray, place: tuple[int, int, int]) -> Box:
    """About where the name will lie, in points: the reader's font is not known here."""
    width, (right, up, edge) = 0.58 * size * tables.width(name), place
    left = middle[0] + right - width * (edge + 1) / 2
    low = middle[1] + (up if up > 0 else up - 1.2 * size)
    return Box(left, low, left + width, low + 1.2 * size)
