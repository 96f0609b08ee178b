"""Compressed runs compared with their teacher: what each loses and saves, and the cheapest that loses little."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pipelines.reports import run_tables
from pipelines.reports.frontier import Point
from pipelines.reports.run_tables import Metrics, Part

BUDGET = 0.01  # how much of the score a compressed run may lose


class Group(NamedTuple):
    """The runs that were compressed from one teacher and scored on the same rows.

    Attributes:
        teacher: the first run in their chains, which is not itself compressed.
        own: the teacher's metrics; None if it was not scored on these rows.
        variants: the metrics of the compressed runs, the largest first.
    """

    teacher: str
    own: Metrics | None
    variants: list[Metrics]

    @property
    def runs(self) -> list[Metrics]:
        return [*([self.own] if self.own else []), *self.variants]


class Cost(NamedTuple):
    """A cost, as the x axis of a plot.

    Attributes:
        least: words for the run of the least cost.
        label: the label of the axis.
        of: returns a run's cost; None if unknown.
    """

    least: str
    label: str
    of: Callable[[Metrics], float | None]


def _megabytes(record: Metrics) -> float:
    return record["model"]["size_bytes"] / 1e6


def _mflops(record: Metrics) -> float | None:
    flops = record["model"].get("flops_per_token")  # a baseline has none
    return None if flops is None else flops / 1e6


SIZE = Cost("the smallest", "size, MB", _megabytes)
FLOPS = Cost("the one with the fewest operations", "MFLOPs per token", _mflops)


def groups(records: Sequence[Metrics]) -> list[Group]:
    """The groups among these runs, by task and teacher."""
    members: dict[tuple[str, str, str], list[Metrics]] = {}
    for record in records:
        if "variant" in record:
            teacher = record["variant"]["chain"][0]["run"]
            members.setdefault((record["task"], teacher, record["split"]), []).append(record)
    scored = {(record["task"], record["run"], record["split"]): record for record in records}
    return [
        Group(key[1], scored.get(key), sorted(members[key], key=lambda r: (-r["model"]["size_bytes"], r["run"])))
        for key in sorted(members)
    ]


def table(group: Group) -> Part:
    """A header, and a line for the teacher and for each compressed run; the first two columns are words.

    Points are 100 times the difference from the teacher's score. Percentages are relative to the teacher's bytes and
    operations.
    """
    sparse = any(_sparsity(record) for record in group.variants)
    metric = group.variants[0]["metric"]
    header = ("run", "methods", metric, "points", "size MB", "size %", "parameters", "MFLOPs/token", "FLOPs %")
    lines = [_line(record, group.own, sparse) for record in group.runs]
    return (*header, *(["sparsity"] if sparse else [])), lines


def markdown(group: Group) -> str:
    header, lines = table(group)
    return f"{_title(group)}\n\n{run_tables.pipes([header, *lines], text=2)}\n{answer(group)}\n"


def plain(group: Group) -> str:
    header, lines = table(group)
    return f"{_title(group)}\n{run_tables.aligned([header, *lines], text=2)}\n{answer(group)}\n"


def _title(group: Group) -> str:
    return f"{group.variants[0]['task']}, compressed from {group.teacher}:"


def _line(record: Metrics, teacher: Metrics | None, sparse: bool) -> tuple[str, ...]:
    is_teacher = record is teacher
    return (
        record["run"],
        "teacher" if is_teacher else methods(record),
        _number(score(record), ".3f"),
        _number(None if is_teacher else change(record, teacher), "+.2f"),
        _number(SIZE.of(record), ",.2f"),
        _number(_share(record, teacher, SIZE), ".0f"),
        _number(record["model"].get("parameters"), ",d"),
        _number(FLOPS.of(record), ",.2f"),
        _number(_share(record, teacher, FLOPS), ".0f"),
        *([_number(_sparsity(record) or None, ".2f")] if sparse else []),
    )


def methods(record: Metrics) -> str:
    """The methods that made a compressed run, in the order of the chain."""
    return ", ".join(step["method"] for step in record["variant"]["chain"] if step["method"])


def change(record: Metrics, teacher: Metrics | None) -> float | None:
    """A run's score minus its teacher's, in points of 0.01; None if one of them has no score."""
    after, before = score(record), score(teacher) if teacher else None
    return None if after is None or before is None else difference(after, before)


def difference(after: float, before: float) -> float:
    """`after` - `before` in points of 0.01, rounded to hide float noise: 0.75 and 0.76 give exactly -1."""
    return round(100 * (after - before), 6)


def answer(group: Group, budget: float = BUDGET) -> str:
    """A sentence that names the cheapest compressed runs that lose at most `budget` of the teacher's score."""
    changes = [(record, change(record, group.own)) for record in group.variants]
    if group.own is None or all(points_lost is None for _, points_lost in changes):
        return f"{group.teacher} has no score on these rows, so the losses are not known."
    within = [record for record, points_lost in changes if points_lost is not None and points_lost >= -100 * budget]
    if not within:
        return f"Every compressed run loses more than {run_tables.points(budget)} against {group.teacher}."
    sentences = ", and ".join(_least(within, group.own, cost) for cost in (SIZE, FLOPS))
    return f"Of the compressed runs that lose at most {run_tables.points(budget)} against {group.teacher}, {sentences}."


def _least(records: list[Metrics], teacher: Metrics, cost: Cost) -> str:
    """Words that name the run of the least cost; the better score decides between equal costs."""
    known = [record for record in records if cost.of(record) is not None]
    if not known:
        return f"{cost.least} is not known"
    least = min(known, key=lambda r: (cost.of(r), -(score(r) or 0.0), r["run"]))
    return f"{cost.least} is {least['run']} ({_number(_share(least, teacher, cost), '.0f')}% of the teacher's)"


def slower(group: Group, timings: Mapping[str, Metrics]) -> str:
    """A sentence that names the runs that are smaller than their teacher, but slower for one row; "" if there are none.

    A run is left out if its spread overlaps the teacher's, because the two were timed one after the other, perhaps on
    different days. `bertline compress` times them in turn.
    """
    if group.own is None or not (took := _spread(timings.get(group.teacher))):
        return ""
    smaller = [r["run"] for r in group.variants if r["model"]["size_bytes"] < group.own["model"]["size_bytes"]]
    slow = [run for run in smaller if (spread := _spread(timings.get(run))) and spread[0] > took[1]]
    sentence = f"Smaller than {group.teacher}, but slower for a row alone on this machine: {', '.join(slow)}."
    return sentence if slow else ""


def _spread(timing: Metrics | None) -> tuple[float, float] | None:
    """The least and the greatest median latency; None without a timing, or in an older format without them."""
    spread = timing and timing["latency_ms"].get("p50_spread")
    return (spread[0], spread[1]) if spread else None


def points(records: Sequence[Metrics], cost: Cost, teacher: str = "") -> list[Point]:
    """A point for each run that has a score and a cost above zero, as a logarithmic scale requires."""
    return [
        Point(record["run"], x, value, record["run"] == teacher)
        for record in records
        if (x := cost.of(record)) and (value := score(record)) is not None
    ]


def score(record: Metrics) -> float | None:
    """A run's score by the task's metric; None on a split without labels."""
    return record["metrics"].get(record["metric"])


def _sparsity(record: Metrics) -> float:
    return record["variant"]["sparsity"] if "variant" in record else 0.0


def _share(record: Metrics, teacher: Metrics | None, cost: Cost) -> float | None:
    """A run's cost in percent of the teacher's."""
    cost_of_record, cost_of_teacher = cost.of(record), cost.of(teacher) if teacher else None
    return 100 * cost_of_record / cost_of_teacher if cost_of_record is not None and cost_of_teacher else None


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
