"""encode: rows to token ids, as Parquet."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.core import entries, params, paths, provenance, schema, stage, tables
from pipelines.core.errors import UsageError
from pipelines.core.progress import progress, say
from pipelines.core.task import Task
from pipelines.text import parallel, tokenizer


def main(key: str) -> None:
    entry = params.entry("encode", key, entries.Encode)
    rows, vocab = paths.rows(entry.task), Path(entry.vocab)
    task, loaded = Task.load(rows), tokenizer.load(vocab)
    positions = tokenizer.positions(tokenizer.encoder_config(vocab))
    if positions is not None and positions < entry.max_length and task.kind != "text":
        raise UsageError(f"params.yaml: encode.{key}.max_length: {entry.max_length}; {vocab} has {positions} positions")
    options = {"stride": entry.stride} if task.kind == "span" else {}
    processes = params.resources().threads
    what = "split" if task.kind == "tagging" else "truncated"
    counts: dict[str, dict[str, int]] = {
        name: dict.fromkeys(task.splits, 0) for name in ("rows", "sequences", "tokens", what)
    }

    def encoded(split: str) -> Iterator[pa.RecordBatch]:
        path = rows / f"{split}.parquet"
        counts["rows"][split] = tables.open_parquet(path).metadata.num_rows
        batches = tables.read_batches(path)
        seen = 0
        done = parallel.encoded(batches, loaded, task, entry.max_length, processes, **options)
        with progress(f"encode {key}: {split}", counts["rows"][split], "rows") as advance:
            for ids, cut in done:
                counts["sequences"][split] += ids.num_rows
                counts["tokens"][split] += sum(ids.column("length").to_pylist())
                counts[what][split] += cut
                seen += len(ids.column("id").unique())  # a row may have several sequences
                advance(seen)
                yield ids

    with paths.fresh_folder(paths.encoded(key)) as out:
        for split in task.splits:
            tables.write(out / f"{split}.parquet", encoded(split), schema.encoded(task.kind, loaded.vocab_size))
            say(f"encode {key}: {split}: {', '.join(f'{numbers[split]:,} {name}' for name, numbers in counts.items())}")
        task.save(out)
        facts: dict[str, Any] = {"max_length": entry.max_length, "vocab_size": loaded.vocab_size, **counts}
        (out / "encoding.json").write_text(json.dumps(facts, indent=1) + "\n")
        (out / "tokenizer").mkdir()
        _copy_tokenizer(vocab, out / "tokenizer", entry.max_length)
        provenance.write(out, "encode", entry.model_dump(), [rows, vocab], ("pyarrow",), tokenizer=loaded.about())


def _copy_tokenizer(vocab: Path, target: Path, max_length: int) -> None:
    """The tokenizer's files, with the length they were used at: it goes into every model trained on these ids."""
    for file in tokenizer.FILES:
        if (vocab / file).is_file():
            shutil.copyfile(vocab / file, target / file)
    config = tokenizer.read_config(vocab) | {"model_max_length": max_length}
    text = json.dumps(config, ensure_ascii=False, indent=1, sort_keys=True)
    (target / tokenizer.CONFIG).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    stage.run("encode", main)
