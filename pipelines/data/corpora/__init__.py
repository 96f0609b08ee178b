"""Corpora, one module each: where the files are, which tasks they hold, and how their rows are read.

Each module defines:
    SOURCES: edition -> its files (see data/sources.py), which `ingest` fetches; {} if `prepare.source` is the user's.
    TASKS: name -> a Task that the corpus always has; {} if the files or the params decide it.
    Params: its settings; `declared.Nothing` if it has none.
    task(raw, name, params): the Task `name`; `declared.chooser(TASKS)` if TASKS has all.
    parse(raw, task, split, params): yields the rows of one split, dicts with the columns of `core/schema.ROWS`. Raises
        InputError, with the file and the line, for a row that it cannot read.
    verify(raw, edition): checks what `ingest` fetched; raises InputError if it is not what the corpus declares.

`raw` is the folder of an edition, or what `prepare.source` names.
"""
