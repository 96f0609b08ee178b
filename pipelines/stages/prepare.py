"""prepare: parse a corpus into readable rows, and check them."""

import json
from pathlib import Path

from pipelines.core import params, paths, plugins, provenance, schema, stage, tables
from pipelines.core.errors import InputError, UsageError, choices
from pipelines.core.progress import say
from pipelines.data import expectations


def main(key: str) -> None:
    entry = params.entry("prepare", key, params.Prepare)
    corpus = plugins.load("pipelines.data.corpora", entry.corpus)
    if corpus.TASKS and entry.task not in corpus.TASKS:
        raise UsageError(f"params.yaml: prepare.{key}.task: {choices('task', entry.task, corpus.TASKS)}")
    options = params.options(entry, corpus.Params, f"prepare.{key}")
    raw = Path(entry.source)
    if not raw.exists():
        raise InputError(f"{raw}: no such file or folder; params.yaml: prepare.{key}.source names it")
    task = corpus.task(raw, entry.task, options)
    with paths.fresh_folder(paths.rows(key)) as out:
        for split in task.splits:
            parts = tables.batches(corpus.parse(raw, task, split, options), schema.ROWS[task.kind])
            count = tables.write(out / f"{split}.parquet", parts, schema.ROWS[task.kind])
            say(f"prepare {key}: {split} has {count:,} rows")
        task.save(out)
        found = expectations.quality(out, task)
        (out / "quality.json").write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        expectations.check(found, entry.expect, f"prepare {key}")
        provenance.write(out, "prepare", entry.model_dump(), [raw], ("pyarrow",))


if __name__ == "__main__":
    stage.run("prepare", main)
