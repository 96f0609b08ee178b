"""Runs, registered models and their history in MLflow; only serving and the flows import this package."""
