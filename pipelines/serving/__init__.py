"""Predictions over HTTP and by a registered model."""
