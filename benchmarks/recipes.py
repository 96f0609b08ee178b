"""Scores of what `bertline new` writes, by kind and number of rows, beside the baseline and beside other settings.

The rows are drawn from the corpora in BERTLINE_MIRROR and written as files of one's own. `bertline new`'s inspection
reads them and chooses the entries; the stages train and score them. OTHERS names changes of these entries.

    python benchmarks/recipes.py --only entities --rows 100 300 --json benchmarks/results/recipes.json
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import harness
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from pipelines.core import paths
from pipelines.data import inspection
from pipelines.graph import new_entries
from pipelines.stages import baseline, encode, evaluate, finetune, ingest, prepare

ROOT = Path(__file__).resolve().parents[1]
ROWS = (100, 300, 1_000, 3_000)
TEST_ROWS = 500  # at most, of the corpus's scored split
SIMILAR = 3.0  # of 0 to 5: pairs of JSTS from here on are similar


class Corpus(NamedTuple):
    """An entry of `prepare` in a params file, the split to score on, and further keys of the entry."""

    file: str
    entry: str
    scored: str
    prepare: dict[str, Any] = {}
    as_pairs: bool = False  # a number per pair becomes a label: similar or not


SQUAD = {"train": "train-v1.1.subset800.json", "dev": "dev-v1.1.reconstructed.json"}
CORPORA = {
    "entities": Corpus("ner", "ner", "test"),
    "questions": Corpus("jaquad", "jaquad", "dev", {"sample": 0.12}),
    "choice": Corpus("jglue", "jcommonsenseqa", "dev"),
    "regression": Corpus("jglue", "jsts", "dev"),
    "pairs": Corpus("jglue", "jsts", "dev", as_pairs=True),
    "questions-en": Corpus("squad", "squad1", "dev", {"corpus": "custom", "kind": "span", "format": "squad"}),
    "choice-en": Corpus("choice", "codah", "test"),
    "headlines": Corpus("livedoor", "livedoor", "test", {"train_per_class": 334}),
    "sentiment-en": Corpus("glue", "sst2", "dev"),
    "regression-en": Corpus("glue", "stsb", "dev"),
}
# kind -> name -> changes of the entry that `bertline new` writes
OTHERS: dict[str, dict[str, dict[str, Any]]] = {
    "tagging": {
        "batches of 4": {"batch_size": 4},
        "bilstm on frozen embeddings": {
            "head": "bilstm",
            "features": "embeddings",
            "strategy": "frozen",
            "learning_rate": 2e-3,
        },
        "the family's own head": {
            "head": "native",
            "features": "last",
            "learning_rate": 5e-4,
            "head_learning_rate": None,
        },
        "linear on all layers": {
            "head": "linear",
            "features": "weighted_sum",
            "learning_rate": 1e-4,
            "head_learning_rate": 2e-3,
        },
    },
    "span": {
        "batches of 4": {"batch_size": 4},
        "bilstm on all layers": {
            "head": "bilstm",
            "features": "weighted_sum",
            "learning_rate": 1e-4,
            "head_learning_rate": 2e-3,
        },
    },
    "choice": {"batches of 4": {"batch_size": 4}},
    "regression": {"batches of 4": {"batch_size": 4}, "frozen": {"strategy": "frozen", "learning_rate": 5e-3}},
    "pair": {"batches of 4": {"batch_size": 4}, "frozen": {"strategy": "frozen", "learning_rate": 5e-3}},
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100 rows, and the recipe alone in one epoch")
    parser.add_argument("--only", nargs="*", default=list(CORPORA), choices=CORPORA, help="these corpora alone")
    parser.add_argument("--rows", nargs="*", type=int, default=list(ROWS), help="rows to train on")
    parser.add_argument("--settings", nargs="*", help="these alone: recipe, or names of OTHERS; all if left out")
    parser.add_argument("--json", type=Path, help="write the scores here; other runs in it stay")
    return parser.parse_args()


def rows_of(corpus: Corpus) -> dict[str, pa.Table]:
    """The training rows and the rows to score on, as `prepare` makes them."""
    values = yaml.safe_load((ROOT / "params" / f"{corpus.file}.yaml").read_text(encoding="utf-8"))
    entry = values["prepare"][corpus.entry] | corpus.prepare
    if entry["corpus"] == "custom":
        entry = {**corpus.prepare, "source": f"{os.environ['BERTLINE_MIRROR']}/squad", "files": SQUAD, "language": "en"}
    values["prepare"] = {corpus.entry: entry}
    Path("params.yaml").write_text(yaml.safe_dump(values, allow_unicode=True))
    if not paths.rows(corpus.entry).exists():
        if entry["corpus"] != "custom":
            ingest.main(Path(entry["source"]).name)
        prepare.main(corpus.entry)
    files = {"train": "train", "test": corpus.scored}
    tables = {name: pq.read_table(paths.rows(corpus.entry) / f"{split}.parquet") for name, split in files.items()}
    return {name: _as_pairs(table) for name, table in tables.items()} if corpus.as_pairs else tables


def _as_pairs(table: pa.Table) -> pa.Table:
    labels = pa.array(["similar" if number >= SIMILAR else "different" for number in table["label"].to_pylist()])
    return table.set_column(table.schema.get_field_index("label"), "label", labels)


def drawn(table: pa.Table, rows: int) -> pa.Table:
    """Rows of a table by chance, always the same; a larger number has those of a smaller one."""
    return table.take(np.random.default_rng(1).permutation(table.num_rows)[:rows])


def scores(name: str, tables: dict[str, pa.Table], rows: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A record for the baseline, for the entries that `bertline new` would write, and for each change of them."""
    folder = Path("own", f"{name}-{rows}")
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", rows), ("test", TEST_ROWS)):
        pq.write_table(drawn(tables[split], count), folder / f"{split}.parquet")
    seen = inspection.inspect([folder / "train.parquet", folder / "test.parquet"])
    entries = {section: entry for section, (_, _, entry) in new_entries.entries("own", seen).items()}
    fits = {"recipe": entries["finetune"] | ({"epochs": 1} if options.quick else {})}
    if not options.quick:
        fits |= {other: entries["finetune"] | changes for other, changes in OTHERS.get(seen.kind, {}).items()}
    fits = {setting: fit for setting, fit in fits.items() if setting in (options.settings or fits)}
    names = dict(zip(fits, ("run", *(f"run-{number}" for number in range(1, len(fits)))), strict=True))
    write(entries, {names[setting]: fit for setting, fit in fits.items()})
    for stage in (prepare, encode):
        stage.main("own")
    baseline.main("own-baseline")
    yield record(name, rows, "own-baseline", "baseline", 0.0)
    for setting, run in names.items():
        began = time.perf_counter()
        finetune.main(run)
        minutes = (time.perf_counter() - began) / 60
        evaluate.main(run)
        yield record(name, rows, run, setting, minutes, fits[setting])


def write(entries: dict[str, Any], fits: dict[str, dict[str, Any]]) -> None:
    sections: dict[str, Any] = {section: {} for section in new_entries.SECTIONS}
    sections |= {name: {"own": entries[name]} for name in ("prepare", "encode")}
    sections |= {"finetune": fits, "evaluate": {run: {"task": "own"} for run in fits}}
    sections |= {"baseline": {"own-baseline": {"task": "own"}}, "resources": {"workers": 0, "threads": 1}}
    Path("params.yaml").write_text(yaml.safe_dump(sections, allow_unicode=True, sort_keys=False))


def record(
    name: str, rows: int, run: str, setting: str, minutes: float, fit: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A run as benchmarks/results.py has it in a table; `rows` are those of its training."""
    scored = json.loads(paths.metrics(run).read_text(encoding="utf-8"))
    how = f"{fit['epochs']} epochs of {fit['batch_size']} a batch, rate {fit['learning_rate']:g}" if fit else "baseline"
    facts = {"file": name, "run": setting, "how": how, "rows": rows, "metric": scored["metric"]}
    score = round(scored["metrics"][scored["metric"]], 4)
    interval = [round(bound, 4) for bound in scored["interval"]]
    return {**facts, "score": score, "interval": interval, "minutes": {"finetune": round(minutes, 1)} if fit else {}}


def main() -> None:
    options = arguments()
    to = options.json.resolve() if options.json else None
    with harness.empty_folder():
        Path("encoders").symlink_to(ROOT / "encoders")
        for name in options.only:
            tables = rows_of(CORPORA[name])
            for rows in [100] if options.quick else options.rows:
                if rows <= tables["train"].num_rows:
                    for run in scores(name, tables, rows, options):
                        print(json.dumps(run, ensure_ascii=False), flush=True)
                        keep(to, run)


def keep(to: Path | None, run: dict[str, Any]) -> None:
    """Write a run beside those of earlier commands, in the place of its own earlier one."""
    if not to:
        return

    def key(record: dict[str, Any]) -> tuple[int, int, bool, str]:
        return list(CORPORA).index(record["file"]), record["rows"], record["run"] != "baseline", record["run"]

    runs = [record for record in harness.kept(to, "runs") if key(record) != key(run)]
    command = "python benchmarks/recipes.py --json benchmarks/results/recipes.json"
    harness.write(to, ("torch", "transformers"), command=command, runs=sorted([*runs, run], key=key))


if __name__ == "__main__":
    main()
