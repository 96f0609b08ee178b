"""Plots as SVG text; the same numbers give the same bytes."""

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

from pipelines.reports import point_labels, run_tables
from pipelines.reports.frontier import Point, frontier

INK, SOFT, BLUE = "#6b7280", "#d1d5db", "#2563eb"  # readable on white and on black
SHADES = (BLUE, "#f59e0b", "#10b981", "#a855f7", "#ef4444")  # the colors of splits
LABEL = 30  # the most columns of a label


@contextmanager
def _settings() -> Iterator[None]:
    """The settings of matplotlib for a whole plot: a text stores parse_math when it is created.

    Names of labels, splits and params are a user's own, and `$$` would be a formula, which is refused.
    """
    import matplotlib

    settings: Any = {"svg.hashsalt": "bertline", "svg.fonttype": "none", "text.parse_math": False}
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # browsers have the font; only widths are estimated here
        yield


@_settings()
def confusion(table: list[list[int]], labels: list[str]) -> str:
    """A confusion matrix: gold labels down, predicted labels across; the shade of a cell is its share of the row."""
    counts = np.array(table)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    names = [run_tables.shortened(label, LABEL) for label in labels]
    beyond = 0.1 * max(0, max(map(run_tables.width, names)) - 10)  # inches of the longest label; 10 columns have room
    figure, axes = _figure(1.5 + 0.55 * len(labels) + beyond, 1.2 + 0.5 * len(labels) + 0.7 * beyond)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for i, j in np.ndindex(*counts.shape):
        if counts[i, j]:
            ink = "white" if shares[i, j] > 0.5 else "black"
            axes.text(j, i, str(counts[i, j]), ha="center", va="center", fontsize=8, color=ink)
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right")
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("predicted")
    axes.set_ylabel("gold")
    return _svg(figure)


@_settings()
def reliability(bins: list[dict[str, Any]]) -> str:
    """A reliability diagram: accuracy by confidence, a point per bin; the size of a point shows its number of rows."""
    figure, axes = _figure(3.8, 3.6)
    axes.plot([0, 1], [0, 1], "--", color=SOFT, linewidth=1)
    rows = np.array([row["rows"] for row in bins])
    x, y = ([row[name] for row in bins] for name in ("confidence", "accuracy"))
    axes.plot(x, y, color=BLUE, linewidth=0.8)
    axes.scatter(x, y, s=8 + 120 * rows / rows.sum(), color=BLUE)
    axes.set_xlim(0, 1.04)
    axes.set_ylim(0, 1.04)
    axes.set_xlabel("confidence")
    axes.set_ylabel("accuracy")
    return _svg(figure)


@_settings()
def pareto(points: Sequence[Point], x_label: str, y_label: str, budget: float) -> str:
    """The score by cost on a logarithmic scale: a point per run, and a step line through the Pareto frontier.

    The teacher is a diamond. A dashed line lies `budget` (as a part of the score, such as 0.01) below it.
    """
    figure, axes = _figure(7.2, 4.2)
    best = frontier(points)
    teachers, others = [p for p in points if p.is_teacher], [p for p in points if not (p.is_teacher or p in best)]
    axes.step([p.x for p in best], [p.score for p in best], where="post", color=BLUE, linewidth=1)
    for shown, form, color, label in (
        (others, ".", INK, "beaten"),
        ([p for p in best if not p.is_teacher], "o", BLUE, "not beaten"),
        (teachers, "D", SHADES[1], "teacher"),
    ):
        if shown:
            axes.plot([p.x for p in shown], [p.score for p in shown], form, color=color, label=label)
    for teacher in teachers:
        limit = f"{run_tables.points(budget)} below it"
        axes.axhline(teacher.score - budget, linestyle="--", color=INK, linewidth=1, label=limit)
    _by_logarithm(axes, [p.x for p in points])
    axes.margins(x=0.12, y=0.15)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(color=SOFT, linewidth=0.5)
    axes.legend(
        frameon=False, fontsize=8, labelcolor=INK, ncols=4, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2
    )
    first = [p for p in points if p.is_teacher or p in best]
    drawn = [line for a, b in pairwise(best) for line in ((a.x, b.x, a.score, a.score), (b.x, b.x, a.score, b.score))]
    ends = min(p.x for p in points), max(p.x for p in points)
    drawn += [(*ends, teacher.score - budget, teacher.score - budget) for teacher in teachers]
    point_labels.beside(figure, axes, [(p.name, p.x, p.score, p in first) for p in [*first, *others]], drawn, INK)
    return _svg(figure)


@_settings()
def ranked(scores: Mapping[str, tuple[float, float, float]], label: str, level: float | None) -> str:
    """A point per run with its interval, in order from the top; a dashed line at the teacher's score, `level`."""
    figure, axes = _figure(7.2, 0.9 + 0.2 * len(scores))
    places = range(len(scores))
    middles, lows, highs = zip(*scores.values(), strict=True)
    axes.hlines(places, lows, highs, color=SOFT)
    axes.plot(middles, places, "o", color=BLUE, markersize=4)
    if level is not None:
        axes.axvline(level, linestyle="--", color=INK, linewidth=1)
    axes.set_yticks(places, list(scores))
    axes.invert_yaxis()
    axes.set_xlabel(label)
    return _svg(figure)


@_settings()
def sweep(lines: Mapping[str, list[tuple[float, float]]], x_label: str, y_label: str, level: float | None) -> str:
    """Scores by a param, a line for each setting of the other params; a dashed line at the teacher's score, `level`."""
    figure, axes = _figure(6.4, 3.2)
    for i, (label, points) in enumerate(lines.items()):
        axes.plot(*zip(*points, strict=True), "o-", color=SHADES[i % len(SHADES)], label=label, markersize=4)
    if level is not None:
        axes.axhline(level, linestyle="--", color=INK, linewidth=1, label="teacher")
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(color=SOFT, linewidth=0.5)
    if any(lines):
        axes.legend(frameon=False, fontsize=8, labelcolor=INK)
    return _svg(figure)


def _by_logarithm(axes: Any, values: list[float]) -> None:
    """Set a logarithmic x axis with plain numbers at its ticks, even for a narrow range."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    axes.set_xscale("log")
    wide = max(values) >= 8 * min(values)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if wide else MaxNLocator(6))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:g}")


@_settings()
def learning(curve: list[list[Any]]) -> str:
    """Losses by step, as `fit` reported them: training losses as lines, held-out losses as points."""
    figure, axes = _figure(6.4, 3.2)
    names = list(dict.fromkeys(name for _, numbers in curve for name in numbers if name.endswith("loss")))
    for i, name in enumerate(names):
        points = [(step, numbers[name]) for step, numbers in curve if name in numbers]
        label = "training" if name == "loss" else f"held out: {name.removesuffix('_loss')}"
        axes.plot(
            *zip(*points, strict=True), "-" if name == "loss" else "o-", color=SHADES[i % len(SHADES)], label=label
        )
    axes.set_xlabel("step")
    axes.set_ylabel("loss, nats")
    axes.set_ylim(bottom=0)
    axes.grid(color=SOFT, linewidth=0.5)
    axes.legend(frameon=False, fontsize=8, labelcolor=INK)
    return _svg(figure)


@_settings()
def drift(windows: Mapping[str, list[dict[str, Any]]]) -> str:
    """A panel for each statistic: its value in each window, the range of chance (shaded), its limit (dashed)."""
    lines = [shift for shifts in windows.values() for shift in shifts]
    names, order = list(dict.fromkeys(shift["statistic"] for shift in lines)), list(windows)
    figure, panels = _figure(2.6 * len(names), 2.8, columns=len(names))
    for axes, name in zip([panels] if len(names) == 1 else panels, names, strict=True):
        points = [shift for shift in lines if shift["statistic"] == name]
        x = [order.index(shift["window"]) for shift in points]
        axes.fill_between(x, [shift["by_chance"] for shift in points], color=SOFT, alpha=0.6, linewidth=0)
        axes.plot(x, [shift["value"] for shift in points], "o-", color=BLUE, markersize=3, linewidth=1)
        axes.axhline(points[-1]["limit"], linestyle="--", color=INK, linewidth=1)
        new = [(i, shift["value"]) for i, shift in zip(x, points, strict=True) if shift["drifted"]]
        axes.plot([i for i, _ in new], [value for _, value in new], "o", color=SHADES[-1])
        shown = sorted({0, len(order) // 2, len(order) - 1})
        axes.set_xticks(shown, [order[i] for i in shown], rotation=45, ha="right")
        axes.set_title(name.replace("_", " "), fontsize=9, color=INK)
        axes.set_ylim(bottom=0)
    return _svg(figure)


@_settings()
def layers(names: list[str], edges: list[tuple[str, str]]) -> str:
    """A layered graph, from left to right: each name is a box to the right of all its predecessors.

    A name without predecessors stands directly before the first of its successors.
    """
    depth, read = dict.fromkeys(names, 0), {end for _, end in edges}
    for _ in names:
        for start, end in edges:
            depth[end] = max(depth[end], depth[start] + 1)
    for name in set(names) - read:
        depth[name] = min((depth[end] - 1 for start, end in edges if start == name), default=0)
    columns = [[name for name in names if depth[name] == i] for i in range(max(depth.values()) + 1)]
    tallest = max(map(len, columns))
    figure, axes = _figure(2.4 * len(columns), 0.4 + 0.6 * tallest)
    places = {
        name: (x, (tallest - len(column)) / 2 + y) for x, column in enumerate(columns) for y, name in enumerate(column)
    }
    for start, end in edges:
        (x, y), (to_x, to_y) = places[start], places[end]
        axes.annotate("", (to_x - 0.3, to_y), (x + 0.3, y), arrowprops={"arrowstyle": "->", "color": INK})
    for name, place in places.items():
        box = {"boxstyle": "round", "facecolor": "white", "edgecolor": BLUE if name in read else SOFT}
        axes.text(*place, name.replace("@", "\n"), ha="center", va="center", fontsize=8, bbox=box)
    axes.set_xlim(-0.6, len(columns) - 0.4)
    axes.set_ylim(tallest - 0.4, -0.6)
    axes.set_axis_off()
    return _svg(figure)


@_settings()
def parallel_coordinates(axes_values: dict[str, list[Any]], scores: list[float], metric: str) -> str:
    """A line per trial through its value of each param to its score; the better the score, the bluer the line."""
    names, shown = [*axes_values, metric], {**axes_values, metric: scores}
    figure, axes = _figure(max(5.0, 1.7 * len(names)), 3.8)
    scaled = np.array([_places(shown[name]) for name in names])  # (axes, trials)
    for trial in np.argsort(scores, kind="stable"):
        better = scaled[-1, trial]
        axes.plot(scaled[:, trial], color=BLUE, alpha=0.15 + 0.85 * better**2, linewidth=0.8 + 1.6 * better**2)
    for x, name in enumerate(names):
        axes.axvline(x, color=SOFT, linewidth=1)
        ends = dict(zip(_places(shown[name]), shown[name], strict=True))
        for y, value in ends.items() if len(ends) <= 6 else [(0.0, ends[0.0]), (1.0, ends[1.0])]:
            text = f"{value:.3g}" if isinstance(value, float) else str(value)
            axes.annotate(text, (x, y), xytext=(4, 2), textcoords="offset points", fontsize=8, color=INK)
    axes.set_xticks(range(len(names)), names)
    axes.set_yticks([])
    axes.set_xlim(-0.1, len(names) - 0.6)
    return _svg(figure)


def _places(values: list[Any]) -> list[float]:
    """Positions from 0 to 1 on an axis: numbers by size, or by logarithm over a decade; other values in order."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        numbers = np.array(values, float)
        if numbers.min() > 0 and numbers.max() >= 10 * numbers.min():
            numbers = np.log(numbers)
    else:
        order = list(dict.fromkeys(map(str, values)))
        numbers = np.array([order.index(str(value)) for value in values], float)
    span = numbers.max() - numbers.min()
    return ((numbers - numbers.min()) / span if span else np.full(len(numbers), 0.0)).tolist()


@_settings()
def lengths_and_labels(quality: dict[str, Any]) -> str:
    """Two panels: the share of rows by length in each split, and the number of rows by label."""
    splits = quality["splits"]
    labels = list(dict.fromkeys(label for numbers in splits.values() for label in numbers.get("labels", {})))
    figure, (left, right) = _figure(9.0, max(2.8, 0.9 + 0.22 * len(labels)), columns=2)
    starts = sorted({int(start) for numbers in splits.values() for start in numbers["lengths"]})
    for i, (split, numbers) in enumerate(splits.items()):
        shares = [numbers["lengths"].get(str(start), 0) / max(1, numbers["rows"]) for start in starts]
        left.plot(range(len(starts)), shares, "o-", color=SHADES[i % len(SHADES)], label=split, markersize=3)
        places = [k + (i + 0.5) / len(splits) * 0.8 - 0.4 for k in range(len(labels))]
        counts = [numbers.get("labels", {}).get(label, 0) for label in labels]
        right.barh(places, counts, height=0.8 / len(splits), color=SHADES[i % len(SHADES)])
    left.set_xticks(range(len(starts)), [f"{start}" for start in starts], rotation=45)
    left.set_xlabel("characters, from")
    left.set_ylabel("share of rows")
    left.legend(frameon=False, fontsize=8, labelcolor=INK)
    right.set_yticks(range(len(labels)), [run_tables.shortened(label, LABEL) for label in labels])
    right.invert_yaxis()
    right.set_xlabel("rows")
    return _svg(figure)


def _figure(width: float, height: float, columns: int = 1) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(ncols=columns)
    for panel in [axes] if columns == 1 else axes:
        panel.tick_params(which="both", colors=INK, labelsize=8)
        panel.xaxis.label.set_color(INK)
        panel.yaxis.label.set_color(INK)
        for spine in panel.spines.values():
            spine.set_color(SOFT)
    return figure, axes


def _svg(figure: Any) -> str:
    """The figure as SVG; the plot that calls it is under `_settings`."""
    out = io.StringIO()
    figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return text[text.index("<svg") :]
