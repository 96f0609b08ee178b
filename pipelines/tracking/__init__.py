"""Runs, registered models and their history in MLflow; no other package imports it."""
