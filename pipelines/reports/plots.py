"""Pictures as SVG text, the same bytes for the same numbers."""

import io
import warnings
from typing import Any

import numpy as np

INK, SOFT, BLUE = "#6b7280", "#d1d5db", "#2563eb"  # readable on white and on black


def confusion(table: list[list[int]], labels: list[str]) -> str:
    """Gold labels down, predicted labels across; a cell's blue is its share of its row."""
    counts = np.array(table)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    figure, axes = _figure(1.5 + 0.55 * len(labels), 1.2 + 0.5 * len(labels))
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for i, j in np.ndindex(*counts.shape):
        if counts[i, j]:
            axes.text(j, i, str(counts[i, j]), ha="center", va="center", fontsize=8, color=_ink(shares[i, j]))
    axes.set_xticks(range(len(labels)), labels, rotation=45, ha="right")
    axes.set_yticks(range(len(labels)), labels)
    axes.set_xlabel("predicted")
    axes.set_ylabel("gold")
    return _svg(figure)


def size_and_score(records: list[dict[str, Any]]) -> str:
    """Each run as a point: megabytes across on a logarithmic scale, score up."""
    figure, axes = _figure(6.4, 3.6)
    for record in records:
        x, y = record["model"]["size_bytes"] / 1e6, record["metrics"][record["metric"]]
        axes.plot(x, y, "o", color=INK if record["how"] == "floor" else BLUE)
        axes.annotate(record["run"], (x, y), xytext=(5, 4), textcoords="offset points", fontsize=8, color=INK)
    axes.set_xscale("log")
    axes.margins(x=0.3, y=0.15)
    for formatter in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
        formatter("{x:g}")
    axes.set_xlabel("size, MB")
    axes.set_ylabel(records[0]["metric"])
    axes.grid(color=SOFT, linewidth=0.5)
    return _svg(figure)


def _figure(width: float, height: float) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.tick_params(which="both", colors=INK, labelsize=8)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
    for spine in axes.spines.values():
        spine.set_color(SOFT)
    return figure, axes


def _ink(share: float) -> str:
    return "white" if share > 0.5 else "black"


def _svg(figure: Any) -> str:
    import matplotlib

    out = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "bertline", "svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the browser has the font; only widths are guessed here
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return text[text.index("<svg") :]
