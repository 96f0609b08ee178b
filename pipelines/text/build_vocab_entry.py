"""Run one entry of build_vocab: learn a tokenizer's vocabulary from the training rows."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from pipelines.core import params, paths, plugins, provenance, schema, tables
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.task import Task
from pipelines.entries.build_vocab import BuildVocab


def learn(key: str, entry: BuildVocab, out: Path) -> None:
    """Write the tokenizer's files into `out`."""
    plugin = plugins.load("pipelines.text.tokenizers", entry.tokenizer)
    options = params.options(entry, plugin.Params, f"build_vocab.{key}")
    rows = paths.rows(entry.rows)
    plugin.train(partial(_texts, rows), out, entry.size, options)
    about = plugin.load(OpenedFolder(out)).about()
    provenance.write(out, "build_vocab", entry.model_dump(), [rows], ("tokenizers",), tokenizer=about)


def _texts(rows: Path) -> Iterator[str]:
    """Every text of the training rows, including the choices."""
    task = Task.load(rows)
    columns = schema.INPUTS[task.kind]
    for batch in tables.read_batches(rows / f"{task.train}.parquet", columns, schema=schema.ROWS[task.kind]):
        for name in columns:
            column = batch.column(name)
            yield from (column.flatten() if name == "choices" else column).to_pylist()
