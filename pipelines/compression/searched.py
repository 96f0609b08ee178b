"""What a search for a smaller model tried, as a table, and as a page with the pictures of score against cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import yaml

from pipelines.compression.chains import SURE, Budget, Chain, Tried
from pipelines.reports import page, plots, tables
from pipelines.reports.frontier import Point

HEADER = ("chain", "score", "points lost", "at most", "MB", "of the bytes", "of the latency", "by", "")


@dataclass(frozen=True)
class Searched:
    """One search.

    Attributes:
        teacher: as a chain of no steps.
        winner: None if nothing keeps the budget, or the gate accepts nothing that does.
        entries: the sections of params.yaml that make the winner, as far as it has not them already.
        gate: what the gates of promote say of it, and of those that they refuse, a line each.
        unfit: the chains that a gate refuses; of those that cost more than the winner none is asked about.
    """

    run: str
    metric: str
    split: str
    budget: Budget
    teacher: Tried
    tried: list[Tried]
    winner: Tried | None
    entries: Mapping[str, Mapping[str, Any]]
    gate: list[str]
    unfit: Sequence[Chain] = ()


def write(out: Path, found: Searched) -> None:
    """Write index.html, table.md and, if the winner is not all in params.yaml, winner.yaml into `out`."""
    (out / "index.html").write_text(html(found), encoding="utf-8")
    reasons = "".join(f"\n{reason}\n" for reason in _reasons(found))
    (out / "table.md").write_text(tables.pipes([HEADER, *_lines(found)], text=1) + reasons, encoding="utf-8")
    if any(found.entries.values()):
        (out / "winner.yaml").write_text(_yaml(found), encoding="utf-8")


def plain(found: Searched) -> str:
    """For a terminal: the table, the winner, what the gate says, and what params.yaml takes to make it."""
    said = [tables.aligned([HEADER, *_lines(found)], text=1), *_reasons(found), "", _sentence(found), *found.gate]
    if any(found.entries.values()):
        said += [f"to make it part of the graph, add to params.yaml:\n{_yaml(found).rstrip()}"]
    return "\n".join(said)


def html(found: Searched) -> str:
    """The page: the winner, score against bytes and against latency, and the table."""
    of_latency = [each for each in _scored(found) if each.latency_share is not None]
    pictures = [
        (_picture(found, {each.chain: each.size_bytes / 1e6 for each in _scored(found)}, "size, MB"), "Score by size"),
        (
            _picture(found, {each.chain: float(each.latency_share or 0) for each in of_latency}, "part of the latency"),
            "Score by latency of a row alone, each beside the teacher in turn and both by their faster runtimes: "
            "of every entry, and of the chains that keep the budget",
        ),
    ]
    figures = "".join(f"<figure>{svg}<figcaption>{escape(says)}</figcaption></figure>\n" for svg, says in pictures)
    recipe = f"<pre>{escape(_yaml(found))}</pre>\n" if any(found.entries.values()) else ""
    says = f"{found.metric} on {found.split}. The chain was chosen on these rows, so its score is a little too high."
    body = (
        f"<h1>compress {escape(found.run)}</h1>\n<p>{escape(_sentence(found))}</p>\n<p>{escape(says)}</p>\n{figures}"
        f"{page.table(HEADER, _lines(found), text=1)}{_listed(_reasons(found))}{_listed(found.gate)}{recipe}"
    )
    return page.document(f"compress {found.run}", body)


def _reasons(found: Searched) -> list[str]:
    """Why chains could not be made: below the table, since a sentence is wider than all of its columns."""
    return [f"{_name(found, each.chain)} was not made: {each.refused}" for each in found.tried if each.refused]


def _listed(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>\n" if lines else ""


def _sentence(found: Searched) -> str:
    budget = found.budget
    asked = f"at most {tables.points(budget.max_loss / 100)} below {found.run}"
    if found.unfit and not found.winner:
        return f"the gate accepts none of the {len(found.unfit)} chains, of {len(found.tried)} tried, that are {asked}"
    close = [each for each in found.tried if each.keeps(budget) and not each.shows(budget)]
    if not found.winner and close:
        some = "1 chain scores" if len(close) == 1 else f"{len(close)} chains score"
        return (
            f"{some} {asked}, of {len(found.tried)} tried, and the rows do not show it of any ({SURE:.0%} sure); take "
            "more rows, allow a larger loss, or use --trust-point"
        )
    if not found.winner:
        return f"no chain of {len(found.tried)} that were tried is {asked}"
    what = "smallest" if budget.target == "size" else "fastest"
    return f"{' + '.join(found.winner.chain)} is the {what} of {len(found.tried)} that were tried, {asked}"


def _scored(found: Searched) -> list[Tried]:
    return [found.teacher, *(each for each in found.tried if not each.refused)]


def _lines(found: Searched) -> list[tuple[str, ...]]:
    """The smallest first, the refused last."""
    order = sorted(_scored(found), key=lambda each: (each.size_bytes, each.chain))
    return [_line(found, each) for each in order] + [
        (_name(found, each.chain), *["-"] * (len(HEADER) - 2), "not made") for each in found.tried if each.refused
    ]


def _line(found: Searched, each: Tried) -> tuple[str, ...]:
    return (
        _name(found, each.chain),
        f"{each.score:.4f}",
        f"{each.loss:.2f}",
        "-" if each.loss_most is None else f"{each.loss_most:.2f}",
        f"{each.size_bytes / 1e6:.2f}",
        f"{each.size_share:.1%}",
        _latency(each),
        each.runtime or "-",
        _note(found, each),
    )


def _latency(each: Tried) -> str:
    """The median, and the least and the greatest of the rounds; the teacher is compared with itself by definition."""
    spread = " ({:.2f}-{:.2f})".format(*each.latency_spread) if each.latency_spread else ""
    return f"{each.latency_share:.2f}{spread}" if each.latency_share is not None else "-"


def _note(found: Searched, each: Tried) -> str:
    """What is to be known of a line: that it won, or why it could not; that it is slower in every round, if smaller."""
    said = {
        "the winner": each is found.winner,
        "loses too much": not each.keeps(found.budget),
        "may lose too much": each.keeps(found.budget) and not each.shows(found.budget),
        "the gate refuses it": each.chain in found.unfit,
        "smaller, but slower": each.size_share < 1 < (each.latency_spread or (0,))[0],
    }
    return "; ".join(words for words, so in said.items() if so)


def _name(found: Searched, chain: Chain) -> str:
    return " + ".join(chain) or f"{found.run} (the teacher)"


def _picture(found: Searched, costs: Mapping[Chain, float], label: str) -> str:
    points = [
        Point(_name(found, each.chain), costs[each.chain], each.score, not each.chain)
        for each in _scored(found)
        if each.chain in costs
    ]
    return plots.pareto(points, label, found.metric, found.budget.max_loss / 100)


def _yaml(found: Searched) -> str:
    sections = {name: dict(entries) for name, entries in found.entries.items() if entries}
    return yaml.safe_dump(sections, sort_keys=False, allow_unicode=True, width=100)
