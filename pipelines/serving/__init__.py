"""Predictions over HTTP, for Parquet files, and by a registered model."""
