"""The drift of a scoring job's windows from the model's profile, as one HTML page."""

from collections.abc import Mapping
from html import escape
from typing import Any

from pipelines.reports import page, plots

Windows = Mapping[str, list[dict[str, Any]]]  # window -> its statistics, each with value, by_chance, limit and drifted
MOST = 100  # windows that are shown, the last ones


def too_few(shift: Mapping[str, Any]) -> bool:
    """Return whether chance alone gives more than the limit, so that no drift does not mean that there is none."""
    return not shift["drifted"] and bool(shift["by_chance"] > shift["limit"])


def html(job: str, windows: Windows, rule: str, alarm: bool) -> str:
    """The page: a plot of each statistic over the last windows, and a table of the numbers, the newest window first."""
    count, windows = len(windows), dict(list(windows.items())[-MOST:])
    lines = [
        (
            shift["window"],
            shift["statistic"],
            "drifted" if shift["drifted"] else "too few rows" if too_few(shift) else "",
            f"{shift['rows']:,}",
            *(f"{shift[name]:.4f}" for name in ("value", "by_chance", "limit")),
        )
        for shifts in reversed(list(windows.values()))
        for shift in shifts
    ]
    says = (
        "A statistic has drifted if it is above its limit (dashed) and above what chance gives for as many rows "
        "(shaded). For length, values and confidence it is the gap between cumulative shares; for labels and "
        "vocabulary, the divergence in bits; for unknown pieces and words, the difference of shares. Too few rows: "
        "chance alone gives more than the limit, so a drift as large as the limit cannot be seen."
    )
    header = ("window", "statistic", "", "rows", "value", "by chance", "limit")
    picture = f"<figure>{plots.drift(windows)}</figure>\n" if lines else ""
    title = f"Drift of {escape(job)}"
    body = (
        f"<h1>{title}</h1>\n<p><strong>{'Drift' if alarm else 'No drift'}</strong>, by the rule {escape(rule)}.</p>\n"
    )
    if count > MOST:
        body += f"<p>The last {MOST} of {count:,} windows; the numbers of all are in the files beside this page.</p>\n"
    return page.document(title, f"{body}<p>{says}</p>\n{picture}{page.table(header, lines, text=3)}")
