"""Every compression of a teacher beside it: score over several seeds, bytes, operations, and speed measured in turn.

FOLDER is a checkout in which a params file of compression is active and its graph was run, such as:

    git clone . ../compress && cd ../compress && bertline use params/compress-livedoor.yaml && bertline run
    python benchmarks/compress.py ../compress livedoor-adapted --json benchmarks/results/compress-livedoor.json

That run is the first of the seeds. The others are made here (compress_runs.py). What a seed gave is appended to
`--runs`, beside the teacher's score, and is not needed in FOLDER again: a table can be filled on several days. So are
speeds, of the models that FOLDER has, of whichever seed: each is measured in turn with the teacher. `--rounds 0`
measures none. `--table` makes nothing, and writes the table of what was kept so far. The aims are those of the
methods' papers, or below them where the teacher is small.
"""

import argparse
import statistics
import sys
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import asdict
from pathlib import Path
from typing import Any

import compress_runs
import harness

from pipelines.core import params, paths
from pipelines.entries.evaluate import Evaluate
from pipelines.measurement import interleaved

# method -> the least share of the teacher's score, the greatest share of its bytes; of drop_layers, if it drops the top
AIMS: dict[str, tuple[float, float | None]] = {
    "q8bert": (0.99, 0.27),
    "dynamic_int8": (0.98, 0.30),
    "drop_layers": (0.95, None),
    "distilbert": (0.97, None),
    "pkd": (0.97, None),
    "theseus": (0.97, None),
    "prune_heads": (0.98, None),
    "share_layers": (0.95, None),
    "factorize_embeddings": (0.95, None),
}
# what was kept of BERT: Rogers et al. 2020 ("A Primer in BERTology", table 1), or the papers themselves
PAPERS = {
    "dynamic_int8": "97%",
    "q8bert": "99% at 25% of the bytes",
    "group_quant": "99% at 8% of the bytes",
    "drop_layers": "about DistilBERT's",
    "distilbert": "97%, 6 layers of 12",
    "pkd": "97%, 6 layers of 12",
    "theseus": "98%, 6 layers of 12",
    "tinybert": "96%, 4 layers of 12",
    "mobile": "100% of 24 layers",
    "bilstm_student": "91% at 1% of the bytes",
    "prune_heads": "about 99%",
    "share_layers": "97%",
    "factorize_embeddings": "97%",
}
SECONDS = 1.0  # of a turn's half: forty models take half an hour
AT_ONCE = 8  # models that are measured before their speeds are kept
CHAIN = (0.10, 3.0)  # of the bytes at most, times the throughput at least, within one point


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("teacher", help="a run of finetune")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="the first is that of the params file")
    parser.add_argument("--rounds", type=int, default=5, help="of speed; 0 measures none")
    parser.add_argument("--only", nargs="*", default=[], help="make and measure these entries alone")
    parser.add_argument("--table", action="store_true", help="of what was kept of --seeds; makes nothing")
    parser.add_argument("--runs", type=Path, default=Path("benchmarks/results/compress.jsonl"), help="what seeds gave")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    to, runs = options.json.resolve() if options.json else None, options.runs.resolve()
    with chdir(options.folder):
        entries = compress_runs.made_from(options.teacher, params.read()["compress"])
        if unknown := [name for name in options.only if name not in (options.teacher, *entries)]:
            parser.error(f"--only: no entry of {options.teacher} is called {unknown[0]}")
        if not options.table:
            compress_runs.keep(entries, options.teacher, options.seeds, runs, options.only)
        if options.rounds and not options.table:
            compare(options.teacher, entries, options.seeds, options.rounds, runs, options.only)
    results = compress_runs.kept(runs)
    lines = {name: compress_runs.of_seeds(name, entries, options.seeds, results) for name in entries}
    if missing := [name for name in entries if not lines[name]]:
        sys.exit(
            f"{options.folder}: not made yet, so there is no table: {', '.join(missing)}; `bertline run` makes them"
        )
    variants = [variant(name, lines[name], entries[name]) for name in entries]
    speeds = compress_runs.speeds(runs)
    for row in variants:
        row["speed"] = speeds.get((row["run"], compress_runs.origin(row["run"], entries)), {})
    teacher_scores = sorted({line["teacher"] for name in entries for line in lines[name]})
    teacher = {"run": options.teacher, "scores": teacher_scores, "speed": speeds.get((options.teacher, ""), {})}
    # of the speeds: whoever writes a table of what was kept may have another CPU
    cpus = {speed["cpu"] for row in (teacher, *variants) for speed in row["speed"].values()} or {harness.cpu()}
    packages = ("torch", "transformers", "onnxruntime")
    harness.report(
        [*claims(variants, teacher)], packages, to, cpu="; ".join(sorted(cpus)), teacher=teacher, variants=variants
    )


def variant(name: str, lines: list[dict[str, Any]], entry: dict[str, Any]) -> dict[str, Any]:
    """What one entry costs, and its score of each seed beside its teacher's.

    `fit`: on what and how long it trained; `which`: the layers that it drops, if it drops any.
    """
    facts = next(line for line in lines if "bytes" in line)
    return {
        "run": name,
        "methods": facts["methods"],
        "fit": {key: entry.get(key) for key in ("data", "epochs")},
        "which": entry.get("which", "top"),
        "seeds": [line["seed"] for line in lines],
        "scores": [line["score"] for line in lines],
        "retention": [line["score"] / line["teacher"] for line in lines],
        "points": [100 * (line["score"] - line["teacher"]) for line in lines],
        "interval": facts["interval"],
        "bytes": facts["bytes"],
        "bytes_share": facts["bytes_share"],
        "flops_share": facts["flops_share"],
        "paper": PAPERS.get(facts["methods"][0], "") if len(facts["methods"]) == 1 else "",
        "sparsity": facts["sparsity"],
    }


def compare(
    teacher: str, entries: compress_runs.Entries, seeds: list[int], rounds: int, runs: Path, only: list[str]
) -> None:
    """Measure the teacher by torch, and in turn with it each variant that is there, and whatever is exported.

    Of `only` some, if it names any. A model with zeros has the shape of the one that it was made from, and is as fast.
    """
    locked, ways = compress_runs.stages(), {(teacher, "onnx"): paths.onnx(teacher)}
    for name in (name for name, entry in entries.items() if entry["method"] != "prune_magnitude"):
        if model := compress_runs.folder(name, entries, seeds, locked):
            ways[name, "torch"] = model
        if model == paths.model(name):  # the graph exports what the first seed made
            ways[name, "onnx"] = paths.onnx(name)
    there = [key for key, folder in ways.items() if folder.is_dir() and (not only or key[0] in only)]
    scored = params.entry("evaluate", teacher, Evaluate)
    rows = paths.rows(scored.task) / f"{scored.split}.parquet"
    for some in (there[i : i + AT_ONCE] for i in range(0, len(there), AT_ONCE)):
        folders = {"teacher": paths.model(teacher)} | {" ".join(key): ways[key] for key in some}
        compared = interleaved.compare(folders, rows, rounds=rounds, seconds=SECONDS)
        for name, way in [(teacher, "torch"), *some]:
            speed = compared["teacher" if (name, way) == (teacher, "torch") else f"{name} {way}"]
            line = {"run": name, "origin": compress_runs.origin(name, entries), "way": way, "cpu": harness.cpu()}
            compress_runs.append(runs, line | asdict(speed))


def claims(variants: list[dict[str, Any]], teacher: dict[str, Any]) -> Iterator[harness.Claim]:
    for row in variants:
        if len(row["methods"]) == 1 and row["methods"][0] in AIMS:
            least, most = AIMS[row["methods"][0]]
            yield of(f"{row['run']}_score_vs_teacher", least if row["which"] == "top" else None, row["retention"])
            if most:
                share = round(row["bytes_share"], 3)
                yield harness.Claim(f"{row['run']}_bytes_vs_teacher", most, share, (share, share), share <= most)
    yield from beside_dropping(variants)
    for row in variants:
        if row["methods"] in (["prune_heads"], ["bilstm_student"]) and "torch" in row["speed"]:
            name = f"{row['run']}_torch_one_row_vs_teacher_torch"
            yield faster(name, 1.0, row["speed"]["torch"]["faster"])
    if teacher["speed"]:
        yield from best_chain(variants, teacher)


def beside_dropping(variants: list[dict[str, Any]]) -> Iterator[harness.Claim]:
    """What students of half the layers score as a part of what dropping the upper half scores.

    Once after fine-tuning alone, which is the first entry of the file, and once after training on the rows and for the
    epochs that the students have, if there is such an entry.
    """
    first = [row for row in variants if row["methods"] == ["drop_layers"]][:1]
    for row in variants:
        if row["methods"] in (["distilbert"], ["pkd"], ["theseus"]):
            alike = [other for other in variants if other["methods"] == ["drop_layers"] and other["fit"] == row["fit"]]
            for dropped in [*first, *(other for other in alike[:1] if other not in first)]:
                scores, others = (dict(zip(way["seeds"], way["scores"], strict=True)) for way in (row, dropped))
                if parts := [scores[seed] / others[seed] for seed in scores if seed in others]:
                    yield of(f"{row['run']}_score_vs_{dropped['run']}", 1.0, parts)


def best_chain(variants: list[dict[str, Any]], teacher: dict[str, Any]) -> Iterator[harness.Claim]:
    """The fastest chain within a point and a tenth of the bytes, by its faster runtime; 0 if there is none."""
    small = [
        row
        for row in variants
        if len(row["methods"]) > 1 and row["bytes_share"] <= CHAIN[0] and statistics.fmean(row["points"]) >= -1
    ]
    ways = [(speed["throughput"], f"{row['run']}_{way}") for row in small for way, speed in row["speed"].items()]
    spread, name = max(ways, default=((0.0, 0.0, 0.0), "no_chain"))
    yield faster(f"{name}_throughput_vs_teacher_torch", CHAIN[1], spread)
    if "onnx" in teacher["speed"]:
        onnx = teacher["speed"]["onnx"]["throughput"][0]
        yield harness.Claim(
            f"{name}_throughput_vs_teacher_onnx",
            None,
            round(spread[0] / onnx, 2),
            (round(spread[1] / onnx, 2), round(spread[2] / onnx, 2)),
            True,
        )


def faster(name: str, aim: float, spread: interleaved.Spread) -> harness.Claim:
    middle, low, high = (round(ratio, 2) for ratio in spread)
    return harness.Claim(name, aim, middle, (low, high), middle >= aim)


def of(name: str, aim: float | None, numbers: list[float]) -> harness.Claim:
    """The mean over the seeds, with the least and the most of them."""
    mean = round(statistics.fmean(numbers), 3)
    return harness.Claim(name, aim, mean, (round(min(numbers), 3), round(max(numbers), 3)), aim is None or mean >= aim)


if __name__ == "__main__":
    main()
