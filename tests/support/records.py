"""Metrics of runs, as their files hold them."""

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
