"""Every compression of a teacher beside it: score over several seeds, bytes, operations, and speed measured in turn.

FOLDER is a checkout in which a params file of compression is active and its graph was run, such as:

    git clone . ../compress && cd ../compress && bertline use params/compress-livedoor.yaml && bertline run
    python benchmarks/compress.py ../compress livedoor-adapted --json benchmarks/results/compress-livedoor.json

That run is the first seed. The others are made here, in FOLDER/state/seeds. The teacher has one seed. A score of
another seed is appended to `--runs` when it is there, beside the teacher's, and is not made again while the entry and
those it comes from stay as they are. The aims are those of the methods' papers, or below them where the teacher is
small.
"""

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import asdict
from pathlib import Path
from typing import Any

import harness
import yaml

from pipelines.core import json_file, params, paths
from pipelines.entries.evaluate import Evaluate
from pipelines.inference import in_turn

# method -> the least share of the teacher's score, the greatest share of its bytes
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
SECONDS = 1.0  # of a turn's half: thirty models take half an hour
CHAIN = (0.10, 3.0)  # of the bytes at most, times the throughput at least, within one point
Entries = dict[str, dict[str, Any]]
Scores = dict[tuple[str, str, int], tuple[float, float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("teacher", help="a run of finetune")
    parser.add_argument("--seeds", type=int, nargs="*", default=[2, 3], help="besides that of the params file")
    parser.add_argument("--rounds", type=int, default=5, help="of speed; 0 measures none")
    parser.add_argument("--runs", type=Path, default=Path("benchmarks/results/compress.jsonl"), help="of other seeds")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    to, runs = given.json.resolve() if given.json else None, given.runs.resolve()
    with chdir(given.folder):
        entries = made_from(given.teacher, params.read()["compress"])
        for seed in given.seeds:
            make(seed, entries, given.teacher, runs)
        found = [variant(name, entries, given.teacher, given.seeds, kept(runs)) for name in entries]
        speeds = compared(given.teacher, entries, given.rounds) if given.rounds else {}
        for each in found:
            each["speed"] = {way: asdict(speeds[key]) for way, key in ways(each["run"]) if key in speeds}
        teacher = {"run": given.teacher, "score": score(given.teacher, Path())}
        teacher["speed"] = {way: asdict(speeds[key]) for way, key in ways(given.teacher) if key in speeds}
    harness.report([*claims(found)], ("torch", "transformers", "onnxruntime"), to, teacher=teacher, variants=found)


def made_from(teacher: str, entries: Entries) -> Entries:
    """The entries that `teacher` leads to, also through others, in the order of the file."""
    found: Entries = {}
    for name, entry in entries.items():
        if entry["teacher"] == teacher or entry["teacher"] in found:
            found[name] = entry
    return found


def place(seed: int) -> Path:
    return Path("state/seeds") / str(seed)


def lineage(name: str, entries: Entries) -> list[str]:
    """An entry, and those that it comes from."""
    return [name, *lineage(entries[name]["teacher"], entries)] if name in entries else []


def origin(name: str, entries: Entries) -> str:
    """A digest of the entry and of those that it comes from."""
    text = json.dumps([entries[each] for each in lineage(name, entries)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def kept(runs: Path) -> Scores:
    """The scores in the file: (entry, its origin, seed) to the student's and the teacher's."""
    each = map(json.loads, runs.read_text(encoding="utf-8").splitlines() if runs.is_file() else ())
    return {(run["run"], run["origin"], run["seed"]): (run["score"], run["teacher"]) for run in each}


def make(seed: int, entries: Entries, teacher: str, runs: Path) -> None:
    """Append to `runs` the scores of another seed that it lacks."""
    known = kept(runs)
    missing = [name for name in entries if (name, origin(name, entries), seed) not in known]
    needed = {each for name in missing for each in lineage(name, entries)}
    for name in made(seed, entries, needed):
        if name in missing:
            scores = {"score": score(name, place(seed)), "teacher": score(teacher, Path())}
            with runs.open("a", encoding="utf-8") as file:
                run = {"run": name, "origin": origin(name, entries), "seed": seed}
                file.write(f"{json.dumps(run | scores)}\n")


def made(seed: int, entries: Entries, needed: set[str]) -> Iterator[str]:
    """Make and evaluate the needed entries with another seed, in a folder that sees what the first seed's run has."""
    values, here = params.read(), place(seed)
    again = {name: entry | {"seed": seed} for name, entry in entries.items()}
    shortened = {key: Path(entry["vocab"]).name for key, entry in values["encode"].items()}
    shortened = {key: name for key, name in shortened.items() if name in entries}
    link(here, {*again, *shortened})
    (here / params.FILE).write_text(yaml.safe_dump(values | {"compress": again}, sort_keys=False), encoding="utf-8")
    for name in filter(needed.__contains__, entries):
        outputs = [
            paths.model(name),
            paths.metrics(name),
            *(paths.encoded(k) for k, v in shortened.items() if v == name),
        ]
        forget(here, outputs, here / "origins" / name, origin(name, entries))
        if (data := again[name]["data"]) in shortened:
            stage(here, "encode", data, paths.encoded(data))
        stage(here, "compress", name, paths.model(name))
        stage(here, "evaluate", name, paths.metrics(name))
        yield name


def forget(here: Path, outputs: list[Path], mark: Path, now: str) -> None:
    """Remove what an entry of other params has left."""
    if mark.is_file() and mark.read_text(encoding="utf-8") == now:
        return
    for each in outputs:
        if (here / each).is_dir():
            shutil.rmtree(here / each)
        (here / each).unlink(missing_ok=True)
    mark.parent.mkdir(exist_ok=True)
    mark.write_text(now, encoding="utf-8")


def link(here: Path, own: set[str]) -> None:
    """Let stages in `here` find the artefacts of the checkout but those with these names, which they make."""
    for kind in ("rows", "vocab", "encoded", "models"):
        (here / paths.ARTIFACTS / kind).mkdir(parents=True, exist_ok=True)
        folder = paths.ARTIFACTS / kind
        for each in folder.iterdir() if folder.is_dir() else ():
            if each.name not in own and not (here / each).exists():
                (here / each).symlink_to(each.resolve())
    if not (here / "encoders").exists():
        (here / "encoders").symlink_to(Path("encoders").resolve())


def stage(here: Path, name: str, key: str, out: Path) -> None:
    if not (here / out).exists():
        code = {"PYTHONPATH": str(Path.cwd()), "BERTLINE_QUIET": "1"}
        subprocess.run(
            [sys.executable, "-m", f"pipelines.stages.{name}", key], cwd=here, env=os.environ | code, check=True
        )


def score(name: str, here: Path) -> float:
    record = json_file.mapping(here / paths.metrics(name))
    return float(record["metrics"][record["metric"]])


def variant(name: str, entries: Entries, teacher: str, seeds: list[int], others: Scores) -> dict[str, Any]:
    """What one entry costs, and its score of each seed beside its teacher's."""
    said = json_file.mapping(paths.model(name) / "variant.json")
    pairs = [(score(name, Path()), score(teacher, Path()))]
    pairs += [others[name, origin(name, entries), seed] for seed in seeds]
    weights = (paths.model(teacher) / "model.safetensors").stat().st_size
    return {
        "run": name,
        "methods": [step["method"] for step in said["chain"][1:]],
        "scores": [own for own, _ in pairs],
        "retention": [own / whole for own, whole in pairs],
        "points": [100 * (own - whole) for own, whole in pairs],
        "bytes": said["size_bytes"]["weights"],
        "bytes_share": said["size_bytes"]["weights"] / weights,
        "flops_share": said["flops_per_token"] / flops(teacher),
        "paper": PAPERS.get(said["method"], "") if len(said["chain"]) == 2 else "",
        "sparsity": said["sparsity"],
    }


def flops(run: str) -> float:
    return float(json_file.mapping(paths.metrics(run))["model"]["flops_per_token"])


def ways(name: str) -> list[tuple[str, str]]:
    return [("torch", name), ("onnx", f"{name} as ONNX")]


def compared(teacher: str, entries: Entries, rounds: int) -> dict[str, in_turn.Compared]:
    """The teacher by torch, and beside it each variant, and whatever is exported."""
    names = (teacher, *entries)
    folders = {name: paths.model(name) for name in names}
    folders |= {f"{name} as ONNX": paths.onnx(name) for name in names if paths.onnx(name).is_dir()}
    scored = params.entry("evaluate", teacher, Evaluate)
    return in_turn.compare(folders, paths.rows(scored.task) / f"{scored.split}.parquet", rounds=rounds, seconds=SECONDS)


def claims(found: list[dict[str, Any]]) -> Iterator[harness.Claim]:
    for each in found:
        if len(each["methods"]) == 1 and each["methods"][0] in AIMS:
            least, most = AIMS[each["methods"][0]]
            yield of(f"{each['run']}_score_vs_teacher", least, each["retention"])
            if most:
                share = round(each["bytes_share"], 3)
                yield harness.Claim(f"{each['run']}_bytes_vs_teacher", most, share, (share, share), share <= most)
    yield from beside_dropping(found)
    for each in found:
        if each["methods"] in (["prune_heads"], ["bilstm_student"]) and "torch" in each["speed"]:
            name = f"{each['run']}_torch_one_row_vs_teacher_torch"
            yield faster(name, 1.0, each["speed"]["torch"]["faster"])
    chains = [each for each in found if len(each["methods"]) > 1 and each["bytes_share"] <= CHAIN[0]]
    for each in chains:
        yield of(f"{each['run']}_points_vs_teacher", -1.0, each["points"])
        for way, speed in each["speed"].items():
            yield faster(f"{each['run']}_{way}_throughput_vs_teacher_torch", CHAIN[1], speed["throughput"])


def beside_dropping(found: list[dict[str, Any]]) -> Iterator[harness.Claim]:
    """What students of half the layers score as a part of what dropping the upper half and fine-tuning scores."""
    dropped = next((each for each in found if each["methods"] == ["drop_layers"]), None)  # the first of the file
    for each in found if dropped else ():
        if each["methods"] in (["distilbert"], ["pkd"], ["theseus"]):
            parts = [own / other for own, other in zip(each["scores"], dropped["scores"], strict=True)]
            yield of(f"{each['run']}_score_vs_{dropped['run']}", 1.0, parts)


def faster(name: str, aim: float, spread: in_turn.Spread) -> harness.Claim:
    middle, low, high = (round(ratio, 2) for ratio in spread)
    return harness.Claim(name, aim, middle, (low, high), middle >= aim)


def of(name: str, aim: float, numbers: list[float]) -> harness.Claim:
    """The mean over the seeds, with the least and the most of them."""
    mean = round(statistics.fmean(numbers), 3)
    return harness.Claim(name, aim, mean, (round(min(numbers), 3), round(max(numbers), 3)), mean >= aim)


if __name__ == "__main__":
    main()
