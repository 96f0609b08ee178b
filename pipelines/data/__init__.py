"""Corpora and what is expected of their rows."""
