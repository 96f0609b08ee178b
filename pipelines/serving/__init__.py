"""Predictions for others: over HTTP, over Parquet files, and as a registered model."""
