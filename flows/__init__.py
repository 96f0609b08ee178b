"""Prefect's flows and the command line."""
