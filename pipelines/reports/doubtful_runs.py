"""Runs that have learned nothing, or less than their baseline: a sentence each, with what to try."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipelines.core.errors import shown

BASELINE = "baseline"  # `how` of the records of baselines
MORE = "more epochs or a higher learning_rate"
LITTLE = 0.1  # an F1 of answers or entities below which hardly anything is found
FEW = "more rows, more epochs"
LARGER = "more rows, another encoder, or the baseline itself"


def sentences(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence for each scored run that is in doubt; `records` has the baselines too, and may lack some."""
    best: dict[tuple[str, str, str], Mapping[str, Any]] = {}
    for record in records:
        if record.get("how") == BASELINE and record["metrics"]:
            known = best.setdefault(_where(record), record)
            if _score(record) > _score(known):
                best[_where(record)] = record
    return [
        f"{record['run']}: {'; '.join(reasons)}"
        for record in records
        if record.get("how") != BASELINE and (reasons := list(_reasons(record, best.get(_where(record)))))
    ]


def _reasons(record: Mapping[str, Any], baseline: Mapping[str, Any] | None) -> Iterator[str]:
    if "only_answer" in record:
        yield f"it has learned nothing: its answer is {shown(record['only_answer'])} for every row; try {MORE}"
    elif record["metrics"] and (chance := _chance(record)) and _score(record) <= chance:
        yield (
            f"it has learned nothing: {record['metric']} {_score(record):.3f}, and the most frequent label alone gives "
            f"{chance:.3f}; try {MORE}"
        )
    elif record["metrics"] and record.get("kind") in ("span", "tagging") and _score(record) < LITTLE:
        yield f"it has learned next to nothing: {record['metric']} {_score(record):.3f}; try {FEW}, or another encoder"
    losses = [point["loss"] for _, point in record.get("curve") or [] if "loss" in point]
    if len(losses) > 1 and losses[-1] >= losses[0]:
        yield f"its loss did not fall ({losses[0]:.3f} to {losses[-1]:.3f}); try a lower learning_rate, or more epochs"
    if baseline and record["metrics"] and _score(record) < _score(baseline):
        yield (
            f"its {record['metric']} is {_score(record):.3f}, below {baseline['run']} with {_score(baseline):.3f}; "
            f"try {MORE}, {LARGER}"
        )


def _where(record: Mapping[str, Any]) -> tuple[str, str, str]:
    return record["task"], record["split"], record["metric"]


def _score(record: Mapping[str, Any]) -> float:
    return record["metrics"][record["metric"]]


def _chance(record: Mapping[str, Any]) -> float:
    """The accuracy of always answering with the most frequent label; 0 for other metrics."""
    counts = [sum(row) for row in record.get("confusion") or []]
    return max(counts) / sum(counts) if record["metric"] == "accuracy" and sum(counts) else 0.0
