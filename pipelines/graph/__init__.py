"""The graph of dvc.yaml: what each stage depends on, why it is stale, and the executor behind `bertline run`."""
