"""Metrics of runs, in the format of their files."""

from typing import Any


def record(run: str, accuracy: float, **changes: Any) -> dict[str, Any]:
    return {
        "run": run,
        "how": "full",
        "task": "headlines",
        "split": "test",
        "rows": 12,
        "metric": "accuracy",
        "metrics": {"accuracy": accuracy},
        "model": {"size_bytes": 2_500_000},
        "interval": [accuracy - 0.1, accuracy + 0.1],
        "classes": {name: {"precision": 0.5, "recall": 0.25, "f1": 1 / 3} for name in ("犬", "<b>")},
        "slices": [{"slice": "1 to 9 characters", "rows": 7, "score": 0.875}],
        "calibration": {"expected_error": 0.125, "bins": [{"confidence": 0.7, "accuracy": 0.5, "rows": 12}]},
        "confusion": [[5, 1], [2, 4]],
        **changes,
    }


RECORDS = [record("worse", 0.5), record("日本語", 0.75), record("other", 0.1, task="another", how="baseline")]


def variant(run: str, accuracy: float, methods: list[str], teacher: str = "big", **changes: Any) -> dict[str, Any]:
    """The metrics of a run that was compressed from `teacher` by these methods in turn."""
    model = {"size_bytes": 2_000_000, "parameters": 1_000_000, "flops_per_token": 4_000_000}
    model_values = {name: changes.pop(name, value) for name, value in model.items()}
    sparsity, params = changes.pop("sparsity", 0.0), changes.pop("params", {})
    steps = [(f"{run}-{i}", method) for i, method in enumerate(methods[:-1])] + [(run, methods[-1])]
    chain = [{"run": name, "method": method} for name, method in [(teacher, None), *steps]]
    facts = {"teacher": chain[-2]["run"], "chain": chain, "params": params, "sparsity": sparsity}
    return record(run, accuracy, model=model_values, variant=facts, **changes)
