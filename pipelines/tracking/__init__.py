"""Names and history, in MLflow; the one place that knows it."""
