"""build_vocab: learn a sub-word vocabulary from rows."""

from collections.abc import Iterator

from pipelines.core import entries, params, paths, plugins, provenance, schema, stage, tables
from pipelines.core.task import Task


def main(key: str) -> None:
    entry = params.entry("build_vocab", key, entries.BuildVocab)
    plugin = plugins.load("pipelines.text.tokenizers", entry.tokenizer)
    options = params.options(entry, plugin.Params, f"build_vocab.{key}")
    rows = paths.rows(entry.rows)
    task = Task.load(rows)
    columns = schema.INPUTS[task.kind]

    def texts() -> Iterator[str]:
        for batch in tables.read_batches(rows / f"{task.train}.parquet", columns):
            for name in columns:
                column = batch.column(name)
                yield from (column.flatten() if name == "choices" else column).to_pylist()

    with paths.fresh_folder(paths.vocab(key)) as out:
        plugin.train(texts, out, entry.size, options)
        about = plugin.load(out).about()
        provenance.write(out, "build_vocab", entry.model_dump(), [rows], ("tokenizers",), tokenizer=about)


if __name__ == "__main__":
    stage.run("build_vocab", main)
