"""Corpora, one module each: its files (SOURCES), its tasks (TASKS, Params) and its parser (parse)."""
