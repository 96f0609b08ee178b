"""The difference of two runs on the same rows: params, answers, slices with intervals, and costs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pipelines.core import json_file, paths, provenance
from pipelines.core.errors import InputError, UsageError
from pipelines.core.schema import TARGETS
from pipelines.evaluation import evaluated_run, row_scores, significance
from pipelines.evaluation.analysis import rows_of_slices
from pipelines.evaluation.evaluated_run import Run
from pipelines.evaluation.prediction_scores import labelled, metric_of_rows
from pipelines.evaluation.significance import OfRows
from pipelines.evaluation.split import Split

NOTHING = "-"  # the value of a param that a run does not have
CHANCE = 0.05  # the level of the sign test
COSTS = ("size_bytes", "parameters", "flops_per_token")


def difference(first: str, second: str, shown: int = 5) -> dict[str, Any]:
    """The difference of two runs as JSON: {"runs", "task", "params", "score", "rows", "slices", "costs"}.

    Intervals are of the second's score minus the first's, by a paired bootstrap (see `significance.interval`).

    Args:
        shown: the most rows that are listed with their texts, for each of gained and lost.

    Raises:
        UsageError: one of them was not evaluated, or they have other rows.
    """
    records = [evaluated_run.record(run) for run in (first, second)]
    task_name, split_name = _same_rows(first, second, records)
    split = evaluated_run.split(records[0])
    runs = [Run.of(name, record, split) for name, record in zip((first, second), records, strict=True)]
    answer: dict[str, Any] = {
        "runs": [first, second],
        "task": task_name,
        "split": split_name,
        "params": _params(runs[0].params, runs[1].params),
        "costs": _costs(runs),
    }
    return answer | _answers(runs, split, shown)


def _same_rows(first: str, second: str, records: list[dict[str, Any]]) -> tuple[str, str]:
    """The task and the split of both runs. Raises UsageError unless both answered the same rows."""
    (task, split), other = ((record["task"], record["split"]) for record in records)
    if (task, split) != other:
        raise UsageError(
            f"{first} answered {task} {split}, {second} {' '.join(other)}; two runs on the same rows differ"
        )
    rows = str(paths.rows(task))
    digests = [evaluated_run.digest(run, task) for run in (first, second)]
    if digests[0] != digests[1] or digests[0] != provenance.digest(paths.rows(task)):
        raise InputError(f"{rows} changed after one of the runs was evaluated; `bertline run` brings both up to date")
    return task, split


def _params(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[dict[str, Any]]:
    """{"param", "first", "second"} for each value that differs; the keys of tables are joined by points."""
    was, now = dict(_flat(first)), dict(_flat(second))
    return [
        {"param": key, "first": was.get(key, NOTHING), "second": now.get(key, NOTHING)}
        for key in dict.fromkeys([*was, *now])
        if was.get(key, NOTHING) != now.get(key, NOTHING)
    ]


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _costs(runs: list[Run]) -> list[dict[str, Any]]:
    """{"cost", "first", "second"}; None where it was not measured, as latency on another machine."""
    costs = []
    for run in runs:
        path = paths.timings(run.name)
        timings = json_file.mapping(path) if path.is_file() else {}
        model = run.record.get("model", {})
        costs.append(
            {name: model.get(name) for name in COSTS}
            | {
                "latency_ms": timings.get("latency_ms", {}).get("p50"),
                "rows_per_second": timings.get("rows_per_second"),
            }
        )
    return [{"cost": name, "first": costs[0][name], "second": costs[1][name]} for name in costs[0]]


def _answers(runs: list[Run], split: Split, shown: int) -> dict[str, Any]:
    """The score, the rows and the slices; without labels, only how many answers differ."""
    targets, task = split.targets(), split.task
    says = [run.says(split) for run in runs]
    changed = np.array([ours != theirs for ours, theirs in zip(*says, strict=True)])
    counts = {"all": len(changed), "changed": int(changed.sum())}
    if not labelled(targets, task):
        return {"score": None, "rows": counts, "gained": [], "lost": [], "slices": []}
    gain = np.subtract(*(row_scores.of(targets, run.answers, task) for run in reversed(runs)))
    gained, lost = (np.flatnonzero(changed & rows) for rows in (gain > 0, gain < 0))
    counts |= {"gained": len(gained), "lost": len(lost), "neither": counts["changed"] - len(gained) - len(lost)}
    value = [metric_of_rows(targets, run.answers, task) for run in runs]
    listed = [
        _listed(rows[np.argsort(-np.abs(gain[rows]), kind="stable")][:shown], says, split) for rows in (gained, lost)
    ]
    return {
        "score": {"metric": task.metric} | _compared(value, np.arange(len(changed)), gain),
        "rows": counts,
        "gained": listed[0],
        "lost": listed[1],
        "slices": _slices(runs, value, split, gain),
    }


def _compared(value: Sequence[OfRows], chosen: np.ndarray, gain: np.ndarray) -> dict[str, Any]:
    """Both scores on the chosen rows, their difference with its 95% interval, and the verdict.

    The difference is won or lost if the interval excludes 0 and the sign test separates the runs as well: the bootstrap
    of a few rows has too narrow an interval.
    """
    first, second = (score(chosen) for score in value)
    low, high = significance.interval(lambda drawn: value[1](chosen[drawn]) - value[0](chosen[drawn]), len(chosen))
    verdict = "won" if low > 0 else "lost" if high < 0 else "open"
    if verdict != "open" and _by_chance(gain[chosen], second - first) > CHANCE:
        verdict = "open"
    return {"first": first, "second": second, "difference": second - first, "interval": [low, high], "verdict": verdict}


def _by_chance(gain: np.ndarray, difference: float) -> float:
    """The p-value of the sign test on the rows whose score differs.

    Where the metric is no mean of the rows' scores, the sides say little, and the p-value is the least for so many.
    """
    differing, won = int((gain != 0).sum()), int((gain > 0).sum())
    of_rows = bool(np.isclose(gain.mean(), difference))
    return significance.sign_test(won if of_rows else differing, differing)


def _slices(runs: list[Run], value: list[OfRows], split: Split, gain: np.ndarray) -> list[dict[str, Any]]:
    """A line for each slice of the kind, each pattern of either run, and each label (its recall)."""
    targets, task = split.targets(), split.task
    lines = [
        {"slice": name, "metric": task.metric, "rows": len(rows)} | _compared(value, rows, gain)
        for name, rows in rows_of_slices(targets, task, _patterns(*runs), split.parts()).items()
    ]
    if task.labels and TARGETS[task.kind] == "label":
        recall = [_mean(row_scores.of(targets, run.answers, task)) for run in runs]
        gold = np.array(targets.column("label").to_pylist(), dtype=object)
        for label in task.labels:
            if len(rows := np.flatnonzero(gold == label)):
                lines.append({"slice": label, "metric": "recall", "rows": len(rows)} | _compared(recall, rows, gain))
    return lines


def _patterns(first: Run, second: Run) -> dict[str, str]:
    """The slices of both entries; the name of one that they define otherwise has the run beside it."""
    every = first.patterns | second.patterns
    for name in first.patterns.keys() & second.patterns.keys():
        if first.patterns[name] != second.patterns[name]:
            del every[name]
            every |= {f"{name} ({run.name})": run.patterns[name] for run in (first, second)}
    return every


def _mean(scores: np.ndarray) -> OfRows:
    return lambda rows: float(scores[rows].mean())


def _listed(chosen: np.ndarray, says: list[list[Any]], split: Split) -> list[dict[str, Any]]:
    """The chosen rows with their inputs, their targets and both answers, in the order of `chosen`."""
    lines = zip(evaluated_run.with_texts(chosen, split), chosen, strict=True)
    return [line | {"first": says[0][place], "second": says[1][place]} for line, place in lines]
