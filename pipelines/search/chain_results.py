"""The results of a search for a smaller model, as a table and as a page with plots of score against cost."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

from pipelines.core import yaml_file
from pipelines.reports import page, plots, run_tables
from pipelines.reports.frontier import Point
from pipelines.search.chains import SURE, Budget, Chain, Tried

HEADER = ("chain", "score", "points lost", "at most", "MB", "of the bytes", "of the latency", "by", "")


@dataclass(frozen=True)
class Searched:
    """One search and its results.

    Attributes:
        teacher: the teacher as a chain without steps.
        winner: None if no chain keeps the budget, or if the gates refuse all that do.
        entries: the entries that params.yaml lacks to make the winner, by section.
        gate: what the gates of promote report about the winner and the refused chains, a line each.
        unfit: the chains that a gate refuses; chains that cost more than the winner are not checked.
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


def write(out: Path, search: Searched) -> None:
    """Write index.html, table.md and, if params.yaml lacks entries of the winner, winner.yaml into `out`."""
    (out / "index.html").write_text(html(search), encoding="utf-8")
    reasons = "".join(f"\n{reason}\n" for reason in _reasons(search))
    (out / "table.md").write_text(run_tables.pipes([HEADER, *_lines(search)], text=1) + reasons, encoding="utf-8")
    if any(search.entries.values()):
        (out / "winner.yaml").write_text(_yaml(search), encoding="utf-8")


def answer(search: Searched) -> dict[str, Any]:
    """The search for a program; a number that was not measured is None, and so is the winner if there is none."""
    return {
        "run": search.run,
        "metric": search.metric,
        "split": search.split,
        "budget": asdict(search.budget),
        "teacher": _numbers(search.teacher),
        "tried": [_numbers(tried) for tried in search.tried],
        "winner": _numbers(search.winner) if search.winner else None,
        "entries": {name: dict(entries) for name, entries in search.entries.items()},
        "gate": search.gate,
        "refused": [list(chain) for chain in search.unfit],
    }


def _numbers(tried: Tried) -> dict[str, Any]:
    """A chain and its result, without NaN, which JSON does not have."""
    return {key: None if value != value else value for key, value in asdict(tried).items()}


def plain(search: Searched) -> str:
    """The text for a terminal: the table, the winner, the gates' reports, and the entries to add to params.yaml."""
    lines = [
        run_tables.aligned([HEADER, *_lines(search)], text=1),
        *_reasons(search),
        "",
        _sentence(search),
        *search.gate,
    ]
    if any(search.entries.values()):
        lines += [f"to add it to the graph, add to params.yaml:\n{_yaml(search).rstrip()}"]
    return "\n".join(lines)


def html(search: Searched) -> str:
    """The page: the winner, plots of score against bytes and against latency, and the table."""
    scored = _scored(search)
    sizes = {tried.chain: tried.size_bytes / 1e6 for tried in scored}
    latencies = {tried.chain: float(tried.latency_share) for tried in scored if tried.latency_share is not None}
    pictures = [
        (_picture(search, sizes, "size, MB"), "Score by size"),
        (
            _picture(search, latencies, "part of the latency"),
            "Score by the latency of one row, as a part of the teacher's: each chain and the teacher ran in turn, "
            "each in its faster runtime. Measured: every entry, and the chains that keep the budget",
        ),
    ]
    figures = "".join(f"<figure>{svg}<figcaption>{escape(says)}</figcaption></figure>\n" for svg, says in pictures)
    recipe = f"<pre>{escape(_yaml(search))}</pre>\n" if any(search.entries.values()) else ""
    says = f"{search.metric} on {search.split}. The chain was chosen on these rows, so its score is a little too high."
    body = (
        f"<h1>compress {escape(search.run)}</h1>\n<p>{escape(_sentence(search))}</p>\n<p>{escape(says)}</p>\n{figures}"
        f"{page.table(HEADER, _lines(search), text=1)}{_listed(_reasons(search))}{_listed(search.gate)}{recipe}"
    )
    return page.document(f"compress {search.run}", body)


def _reasons(search: Searched) -> list[str]:
    """The reasons why chains could not be made; they stand below the table, because its columns are too narrow."""
    return [f"{_name(search, tried.chain)} was not made: {tried.refused}" for tried in search.tried if tried.refused]


def _listed(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{page.sentence(line)}</li>' for line in lines)}</ul>\n" if lines else ""


def _sentence(search: Searched) -> str:
    budget = search.budget
    limit = f"at most {run_tables.points(budget.max_loss / 100)} below {search.run}"
    count = len(search.tried)
    close = [tried for tried in search.tried if tried.keeps(budget) and not tried.shows(budget)]
    unsure = f"but the rows do not show it {SURE:.0%} sure; take more rows, allow a larger loss, or use --trust-point"
    if search.unfit and not search.winner:
        shown = "is" if budget.trust_point else "is shown to be"
        more = f"; {len(close)} more {'score' if len(close) > 1 else 'scores'} so, {unsure}" if close else ""
        return f"the gate refuses every chain that {shown} {limit}: {len(search.unfit)} of {count} tried{more}"
    if not search.winner and close:
        some = "1 chain scores" if len(close) == 1 else f"{len(close)} chains score"
        return f"{some} {limit}, of {count} tried, {unsure}"
    if not search.winner:
        sentence = f"none of the {count} chains tried is {limit}"
        made = [tried for tried in search.tried if not tried.refused]
        nearest = min(made, key=lambda tried: tried.loss, default=None)
        return sentence + (f"; {' + '.join(nearest.chain)} is nearest, {nearest.loss:.2f} below" if nearest else "")
    what = "smallest" if budget.target == "size" else "fastest"
    return f"{' + '.join(search.winner.chain)} is the {what} chain that is {limit}; {count} were tried"


def _scored(search: Searched) -> list[Tried]:
    return [search.teacher, *(tried for tried in search.tried if not tried.refused)]


def _lines(search: Searched) -> list[tuple[str, ...]]:
    """The rows of the table: the smallest model first, the refused chains last."""
    order = sorted(_scored(search), key=lambda tried: (tried.size_bytes, tried.chain))
    return [_line(search, tried) for tried in order] + [
        (_name(search, tried.chain), *["-"] * (len(HEADER) - 2), "not made") for tried in search.tried if tried.refused
    ]


def _line(search: Searched, tried: Tried) -> tuple[str, ...]:
    return (
        _name(search, tried.chain),
        f"{tried.score:.4f}",
        f"{tried.loss:.2f}",
        "-" if tried.loss_most is None else f"{tried.loss_most:.2f}",
        f"{tried.size_bytes / 1e6:.2f}",
        f"{tried.size_share:.1%}",
        _latency(tried),
        tried.runtime or "-",
        _note(search, tried),
    )


def _latency(tried: Tried) -> str:
    """The median with the minimum and maximum of the rounds; the teacher's is 1 by definition, without rounds."""
    spread = " ({:.2f}-{:.2f})".format(*tried.latency_spread) if tried.latency_spread else ""
    return f"{tried.latency_share:.2f}{spread}" if tried.latency_share is not None else "-"


def _note(search: Searched, tried: Tried) -> str:
    """The note on a row: it won, why it could not win, or that it is smaller but slower in every round."""
    notes = {
        "the winner": tried is search.winner,
        "loses too much": not tried.keeps(search.budget),
        "may lose too much": tried.keeps(search.budget) and not tried.shows(search.budget),
        "the gate refuses it": tried.chain in search.unfit,
        "smaller, but slower": tried.size_share < 1 < (tried.latency_spread or (0,))[0],
    }
    return "; ".join(words for words, so in notes.items() if so)


def _name(search: Searched, chain: Chain) -> str:
    return " + ".join(chain) or f"{search.run} (the teacher)"


def _picture(search: Searched, costs: Mapping[Chain, float], label: str) -> str:
    points = [
        Point(_name(search, tried.chain), costs[tried.chain], tried.score, not tried.chain)
        for tried in _scored(search)
        if tried.chain in costs
    ]
    return plots.pareto(points, label, search.metric, search.budget.max_loss / 100)


def _yaml(search: Searched) -> str:
    sections = {name: dict(entries) for name, entries in search.entries.items() if entries}
    return yaml_file.dump(sections, width=100)
