"""Place names next to the points of a plot without overlaps; small names are left out if there is no room."""

from typing import Any, NamedTuple

import numpy as np

from pipelines.reports import run_tables

LARGE, SMALL = 8.0, 6.5  # font sizes, in points (1/72 inch)
ROUND = 4.0  # the radius of a marker, in points
# (right, up, edge): the offset from a marker's center to its label, and the label's edge there (-1 left, 1 right)
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
    """Write each name next to its point, in the order given. Everything else in the plot must be drawn already.

    Args:
        named: name, x, y, and whether the name is required. Others are small, and left out if there is no room.
        lines: horizontal and vertical lines that no name should cross, as (from x, to x, from y, to y).
    """
    figure.draw_without_rendering()  # this fixes the position of the axes
    inside = Box(*(axes.bbox.get_points() * 72 / figure.dpi).flatten())
    middles = _places(figure, axes, [(x, y) for _, x, y, _ in named])
    occupied = [Box(x - ROUND, y - ROUND, x + ROUND, y + ROUND) for x, y in middles]
    for x, to_x, y, to_y in lines:
        (left, low), (right, high) = _places(figure, axes, [(x, min(y, to_y)), (to_x, max(y, to_y))])
        occupied.append(Box(left - 0.5, low - 0.5, right + 0.5, high + 0.5))
    for (name, x, y, needed), middle in zip(named, middles, strict=True):
        size = LARGE if needed else SMALL
        boxes = [_box(name, size, middle, place) for place in PLACES]
        free = [i for i, box in enumerate(boxes) if box.within(inside) and not any(map(box.meets, occupied))]
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
        occupied.append(boxes[free[0] if free else 0])


def _places(figure: Any, axes: Any, places: list[tuple[float, float]]) -> np.ndarray:
    """Convert (N, 2) data coordinates to points (1/72 inch) from the lower left corner of the figure."""
    return axes.transData.transform(places) * 72 / figure.dpi


def _box(name: str, size: float, middle: np.ndarray, place: tuple[int, int, int]) -> Box:
    """The estimated box of a name, in points; the reader's font is not known here."""
    width, (right, up, edge) = 0.58 * size * run_tables.width(name), place
    left = middle[0] + right - width * (edge + 1) / 2
    low = middle[1] + (up if up > 0 else up - 1.2 * size)
    return Box(left, low, left + width, low + 1.2 * size)
