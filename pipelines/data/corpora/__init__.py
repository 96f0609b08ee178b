"""One file a corpus: where it comes from (SOURCES), what can be asked of it (TASKS, Params), and parse()."""
