"""Corpora: fetch and parse them, and check their rows."""
