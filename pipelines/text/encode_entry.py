"""Run one entry of encode: turn a folder of rows into a folder of token ids and the tokenizer that made them."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.core import json_file, paths, provenance, schema, tables
from pipelines.core.errors import UsageError
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.progress import progress, say
from pipelines.core.task import Task
from pipelines.entries.encode import Encode
from pipelines.text import parallel, protocol, tokenizer
from pipelines.text.encoding import Encoded

BATCH_ROWS = 4096  # maximum; larger batches are faster, since each distinct word of a batch is tokenized once
CUT = {
    "tagging": "split",
    "span": "questions truncated",
}  # kind -> the name of the count of rows that are too long
UNKNOWN = 0.05  # share of a split's pieces without a token, from which the vocabulary is one of another language
FACTS = "encoding.json"  # the maximum length of sequences, and the counts


def encode(key: str, entry: Encode, out: Path, processes: int, rows: Path | None = None) -> None:
    """Write a Parquet file per split, the task, the tokenizer and the rows for scores in training into `out`.

    Args:
        processes: 0 for as many as there are cores.
        rows: the folder of rows; by default that of the entry's name.
    """
    rows, vocab = rows or paths.rows(entry.task), OpenedFolder(Path(entry.vocab))
    task, loaded = Task.load(rows), tokenizer.load(vocab, entry.special_tokens)
    positions = tokenizer.positions(vocab.encoder_config)
    if positions is not None and positions < entry.max_length and task.kind != "text":
        raise UsageError(f"params.yaml: encode.{key}.max_length: {entry.max_length}; {vocab} has {positions} positions")
    options = {"stride": entry.stride, "max_question": entry.max_question} if task.kind == "span" else {}
    cut = CUT.get(task.kind, "truncated")
    counts: dict[str, dict[str, int]] = {
        name: dict.fromkeys(task.splits, 0) for name in ("rows", "sequences", "tokens", cut)
    }
    for split in task.splits:
        path = rows / f"{split}.parquet"
        batches = tables.read_batches(path, size=BATCH_ROWS, schema=schema.ROWS[task.kind])
        done = parallel.encoded(batches, loaded, task, entry.max_length, processes, **options)
        counts["rows"][split] = tables.open_parquet(path).metadata.num_rows
        counted = _counted(done, counts, split, cut, f"encode {key}: {split}", pieces := _Pieces(loaded))
        tables.write(out / f"{split}.parquet", counted, schema.encoded(task.kind, loaded.vocab_size))
        if split != "train" and task.kind != "text":
            scored = paths.scored_rows(out, split)
            scored.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, scored)  # DVC's cache stores equal files once
        say(f"encode {key}: {split}: {', '.join(f'{numbers[split]:,} {name}' for name, numbers in counts.items())}")
        pieces.tell(f"encode {key}: {split}", entry.vocab)
    task.save(out)
    json_file.write(out / FACTS, {"max_length": entry.max_length, "vocab_size": loaded.vocab_size, **counts})
    (out / "tokenizer").mkdir()
    used = {"special_tokens": entry.special_tokens, "fingerprint": tokenizer.fingerprint(loaded), **options}
    _copy_tokenizer(vocab, out / "tokenizer", {"model_max_length": entry.max_length, tokenizer.OURS: used})
    provenance.write(out, "encode", entry.model_dump(), [rows, vocab.path], ("pyarrow",), tokenizer=loaded.about())


class _Pieces:
    """The number of pieces of texts, without the special tokens around them, and of those without a token.

    They are for a warning and stand in no output, so that they make no model stale.
    """

    def __init__(self, loaded: protocol.Tokenizer) -> None:
        self._unknown, self._around = loaded.unk_id, np.array([loaded.cls_id, loaded.sep_id, loaded.pad_id])
        self.total = self.unknown = 0

    def count(self, ids: pa.Array) -> None:
        while pa.types.is_list(ids.type):
            ids = ids.flatten()
        self.total += len(ids) - int(np.isin(ids, self._around).sum())
        self.unknown += int((np.asarray(ids) == self._unknown).sum())

    def tell(self, what: str, vocab: str) -> None:
        """Print a warning if too many have no token."""
        if self.total and self.unknown >= UNKNOWN * self.total:
            share = f"{self.unknown / self.total:.0%} of the pieces"
            say(f"{what}: {vocab} has no token for {share}; take an encoder of this language")


def _counted(
    done: Iterator[Encoded], counts: dict[str, dict[str, int]], split: str, cut_name: str, what: str, pieces: _Pieces
) -> Iterator[pa.RecordBatch]:
    """The batches of ids, counted as they pass."""
    rows_done = 0
    with progress(what, counts["rows"][split], "rows") as advance:
        for ids, cut in done:
            counts["sequences"][split] += ids.num_rows
            counts["tokens"][split] += sum(ids.column("length").to_pylist())
            counts[cut_name][split] += int(cut.sum())
            pieces.count(ids.column("input_ids"))
            rows_done += len(ids.column("id").unique())  # a row may have several sequences
            advance(rows_done)
            yield ids


def _copy_tokenizer(vocab: OpenedFolder, target: Path, used: dict[str, Any]) -> None:
    """Copy the tokenizer's files and add the options in use, for every model trained on these ids."""
    for file in protocol.FILES:
        if (vocab / file).is_file():
            paths.copy(vocab.path, file, target / file)
    config = {**vocab.tokenizer_config, **used}
    text = json.dumps(config, ensure_ascii=False, indent=1, sort_keys=True)
    (target / protocol.CONFIG).write_text(text + "\n", encoding="utf-8")
