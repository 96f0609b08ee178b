"""The model card's text."""

from typing import Any

from pipelines.reports import model_card_text


def test_a_slice_without_a_score_is_not_called_weak() -> None:
    scored: dict[str, Any] = {"task": "t", "split": "test", "rows": 9, "metric": "matthews", "baselines": []}
    scored |= {"metrics": {"matthews": 0.5}, "interval": [0.4, 0.6]}
    scored["slices"] = [{"slice": "one label", "rows": 3, "score": None}, {"slice": "hard", "rows": 6, "score": 0.1}]
    facts: dict[str, Any] = {"name": "m", "kind": "single", "family": "bert", "language": "", "parameters": 1}
    facts |= {"size_bytes": 1, "max_length": 8, "labels": ["a", "b"], "data": {}, "training": [], "run": ""}
    text = model_card_text.markdown(facts | {"evaluation": scored, "inputs": {}})
    assert "| hard " in text
    assert "one label" not in text
