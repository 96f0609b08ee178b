"""Runs, registered models and their history in MLflow; nothing that trains or evaluates imports this package."""
