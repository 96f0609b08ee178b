"""The report as one HTML page, with inline plots."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from typing import Any

from pipelines.reports import plots, run_tables, sweeps, variants

Picture = tuple[str, str]  # SVG and a caption
CODE = re.compile("`([^`]+)`")  # a command or a key in a sentence
STYLE = """
:root { color-scheme: light dark; --ink: #111827; --paper: #fff; --soft: #e5e7eb; }
@media (prefers-color-scheme: dark) { :root { --ink: #e5e7eb; --paper: #111827; --soft: #374151; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { padding: .3rem .8rem; text-align: left; border-bottom: 1px solid var(--soft); }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
figure { display: inline-block; vertical-align: top; margin: 1rem 1.5rem 1rem 0; max-width: 100%; overflow-x: auto; }
figcaption { color: #6b7280; max-width: 24rem; } svg { max-width: 100%; height: auto; }
li, p, h1, h2 { overflow-wrap: anywhere; }
"""


def html(
    records: list[dict[str, Any]], qualities: dict[str, dict[str, Any]], pretrained: Sequence[dict[str, Any]] = ()
) -> str:
    """The page: a section per task, or per split of a task with runs on several, and one per pretrained encoder.

    A task's section has a table of runs, scores by size, compressed runs next to their teachers, and the rows by length
    and label. For the teacher or the best model and for the best baseline it also shows the errors in detail. An
    encoder's section has its learning curve.
    """
    splits = {
        place: list(group) for place, group in groupby(run_tables.ranked(records), lambda r: (r["task"], r["split"]))
    }
    several = Counter(task for task, _ in splits)
    names = {(task, split): f"{task}/{split}" if several[task] > 1 else task for task, split in splits}
    sections = {names[place]: _section(names[place], group, qualities.get(place[0])) for place, group in splits.items()}
    sections |= {_of_pretraining(record): _pretraining(record) for record in pretrained}
    says = "Intervals are 95% bootstrap intervals. `bertline table` shows how fast each run is on this machine."
    head = f"<h1>bertline report</h1>\n<p>{sentence(says)}</p>\n{_contents(sections)}"
    return document("bertline report", head + "".join(sections.values()))


def _contents(sections: Iterable[str]) -> str:
    """Links to the sections, which have their names as ids."""
    links = [f'<a href="#{_id(name)}">{escape(name)}</a>' for name in sections]
    return f"<p>{' &middot; '.join(links)}</p>\n" if len(links) > 1 else ""


def _heading(name: str) -> str:
    return f'<h2 id="{_id(name)}">{escape(name)}</h2>'


def _id(name: str) -> str:
    return escape(name.replace(" ", "-"))


def sentence(text: str) -> str:
    """A sentence as HTML, with what stands between backticks as code."""
    return CODE.sub(r"<code>\1</code>", escape(text))


def document(title: str, body: str) -> str:
    """A complete HTML document that loads nothing from a network."""
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n{body}</html>\n"
    )


def _section(name: str, records: list[dict[str, Any]], quality: dict[str, Any] | None) -> str:
    groups, shown = variants.groups(records), detailed(records)
    pictures = [] if groups else _pareto(records, variants.SIZE)
    pictures += [*_confusions(shown), *_calibrations(shown)]
    if quality:
        pictures.append((plots.lengths_and_labels(quality), f"Rows of {records[0]['task']} by length and by label"))
    every = [table(run_tables.HEADER, map(run_tables.line, records), run_tables.TEXT)]
    for part in (run_tables.classes(shown), run_tables.slices(shown)):
        if part[1]:
            every.append(table(*part, text=1))
    checks = run_tables.behaviour(records)
    if checks:
        every.append(table(run_tables.CHECKS, checks, text=3))
    compressed = "".join(map(_variants, groups))
    return f"{_heading(name)}\n{''.join(every)}{compressed}{_figures(pictures)}"


def detailed(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records to show in detail, from the ranked records of one split: of one model and of the best baseline.

    The model is the teacher of the compressed runs, or else the best model. Either record may be missing.
    """
    scored = [record for record in records if record["metrics"]]
    teachers = [group.own["run"] for group in variants.groups(records) if group.own and group.own["metrics"]]
    models = [record for record in scored if record["how"] != "baseline"]
    chosen = [record for record in models if record["run"] in teachers] or models
    return chosen[:1] + [record for record in scored if record["how"] == "baseline"][:1]


def _confusions(records: list[dict[str, Any]]) -> Iterator[Picture]:
    for record in records:
        if "confusion" in record:
            rows = f"{record['rows']:,} rows of {record['task']}/{record['split']}"
            caption = f"{record['run']}: {rows}; gold labels down, predicted labels across"
            yield plots.confusion(record["confusion"], list(record["classes"])), caption


def _calibrations(records: list[dict[str, Any]]) -> Iterator[Picture]:
    for record in records:
        if "calibration" in record:
            error = record["calibration"]["expected_error"]
            caption = f"{record['run']}: confidence and accuracy; expected calibration error {error:.3f}"
            yield plots.reliability(record["calibration"]["bins"]), caption


def _variants(group: variants.Group) -> str:
    """The section of a teacher and its compressed runs: a summary sentence, the table, and a plot for each cost."""
    pictures = [
        picture for cost in (variants.SIZE, variants.FLOPS) for picture in _pareto(group.runs, cost, group.teacher)
    ]
    pictures += _ranking(group)
    header, lines = variants.table(group)
    says = f"{variants.answer(group)} `bertline compress {group.teacher}` plots score by latency on this machine."
    return (
        f"<h3>Compressed from {escape(group.teacher)}</h3>\n<p>{sentence(says)}</p>\n"
        f"{table(header, lines, text=2)}{_figures(pictures)}"
    )


def _pareto(records: list[dict[str, Any]], cost: variants.Cost, teacher: str = "") -> list[Picture]:
    """A plot of the score by a cost; empty if there are fewer than two runs."""
    points = variants.points(records, cost, teacher)
    if len(points) < 2:
        return []
    what = "size" if cost is variants.SIZE else "operations"
    says = f"Score by {what}" + (f", of {teacher} and the models made from it" if teacher else "")
    return [(plots.pareto(points, cost.label, records[0]["metric"], variants.BUDGET), says)]


def _ranking(group: variants.Group) -> list[Picture]:
    """A plot of the runs by score, and a plot for each sweep of a method's param."""
    scored, metric = [record for record in group.variants if record["metrics"]], group.variants[0]["metric"]
    level = variants.score(group.own) if group.own else None
    if len(scored) < 2:
        return []
    order = run_tables.ranked(scored)
    scores = {record["run"]: (record["metrics"][metric], *record["interval"]) for record in order}
    pictures = [(plots.ranked(scores, metric, level), "By score, with 95% intervals; dashed: the teacher")]
    for sweep in sweeps.found(scored):
        says = f"{sweep.method} by {sweep.param}; dashed: the teacher"
        pictures.append((plots.sweep(sweep.lines, sweep.param, metric, level), says))
    return pictures


def _figures(pictures: Iterable[Picture]) -> str:
    return "".join(f"<figure>{svg}<figcaption>{escape(says)}</figcaption></figure>\n" for svg, says in pictures)


def _of_pretraining(record: dict[str, Any]) -> str:
    return f"pretraining {record['run']}"


def _pretraining(record: dict[str, Any]) -> str:
    numbers = [(name, f"{value:,.4g}") for name, value in record["metrics"].items()]
    says = f"{record['run']}: {record['objective']}, {record['parameters']:,} parameters; losses by step"
    return (
        f"{_heading(_of_pretraining(record))}\n{table(('metric', 'held out'), numbers, text=1)}"
        f"<figure>{plots.learning(record['curve'])}<figcaption>{escape(says)}</figcaption></figure>\n"
    )


def table(header: Sequence[str], lines: Iterable[Sequence[str]], text: int) -> str:
    """An HTML table; the first `text` columns are words, the others numbers."""

    def row(cells: Sequence[str], tag: str) -> str:
        parts = (f"<{tag}{' class=number' if i >= text else ''}>{escape(cell)}</{tag}>" for i, cell in enumerate(cells))
        return f"<tr>{''.join(parts)}</tr>\n"

    return f"<table>\n{row(header, 'th')}{''.join(row(line, 'td') for line in lines)}</table>\n"
