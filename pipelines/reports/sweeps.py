"""Sweeps: compressed runs of one method that differ in one number, such as the share of weights that are zero."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pipelines.reports.run_tables import Metrics

LEAST = 3  # the least number of values in a sweep


class Sweep(NamedTuple):
    """Scores of a method by one of its params.

    Attributes:
        lines: label of a line, made of the other params that differ -> (the param's value, score), sorted by value.
    """

    method: str
    param: str
    lines: dict[str, list[tuple[float, float]]]


def found(records: Iterable[Metrics]) -> list[Sweep]:
    """The sweeps among compressed runs, by method and param."""
    methods: dict[tuple[str, ...], list[Metrics]] = {}
    for record in records:
        if "variant" in record and record["metrics"]:
            *before, last = record["variant"]["chain"]
            methods.setdefault((*(step["run"] for step in before), last["method"]), []).append(record)
    return [sweep for key, runs in sorted(methods.items()) for sweep in _of_method(key[-1], runs)]


def _of_method(method: str, records: list[Metrics]) -> Iterator[Sweep]:
    params = [record["variant"]["params"] for record in records]
    for name in sorted({key for settings in params for key, value in settings.items() if _is_number(value)} - {"seed"}):
        lines: dict[str, list[tuple[float, float]]] = {}
        for record, settings in zip(records, params, strict=True):
            if _is_number(settings.get(name)):
                rest = {key: value for key, value in settings.items() if key != name}
                score = record["metrics"][record["metric"]]
                lines.setdefault(json.dumps(rest, sort_keys=True), []).append((settings[name], score))
        long = {rest: sorted(points) for rest, points in lines.items() if len({x for x, _ in points}) >= LEAST}
        if long:
            yield Sweep(method, name, _labelled(long))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _labelled(lines: dict[str, list[tuple[float, float]]]) -> dict[str, list[tuple[float, float]]]:
    """Label each line by the params that differ between lines; a single line has the label ""."""
    rests = [json.loads(rest) for rest in lines]
    keys = sorted({key for rest in rests for key in rest})
    differing = [key for key in keys if len({json.dumps(rest.get(key)) for rest in rests}) > 1]
    labels = [", ".join(f"{key} {rest.get(key)}" for key in differing) for rest in rests]
    return dict(zip(labels, lines.values(), strict=True))
