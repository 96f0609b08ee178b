"""Corpora, one file each: its files (SOURCES), its tasks (TASKS, Params), and how they are parsed (parse)."""
