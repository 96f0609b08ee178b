"""The ready-made params files as a user runs them: a fresh clone, `bertline use params/NAME.yaml`, `dvc repro`.

Nothing is cut. For every run its score with the 95% interval, and the minutes of its stages that train, a start of DVC
and of Python included. What the file holds of other params files stays. Of `glue`, `jglue` and `squad` the mirror has a
part: that part is run. With --folder the clones are kept there, and a run that was cut off goes on; the minutes of the
stage that it was cut off in are then not known.

    python benchmarks/ready_made.py choice features --json benchmarks/results/ready_made.json
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import harness
import yaml

from pipelines.core import params, paths
from pipelines.graph import executor

ROOT = Path(__file__).resolve().parents[1]
STAGES = ("pretrain", "finetune", "compress")
# file -> the runs whose corpora the mirror has; all of them where it is not named
MIRRORED = {"glue": ["cola", "sst2", "stsb", "rte", "wnli"], "jglue": ["jsts", "jcommonsenseqa"]}


def arguments() -> argparse.Namespace:
    files = sorted(file.stem for file in (ROOT / "params").glob("*.yaml"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=files)
    parser.add_argument("--precision", default="auto", choices=("auto", "fp32", "bf16"))
    parser.add_argument("--threads", type=int, help="of every stage; as many as there are cores if left out")
    parser.add_argument("--folder", type=Path, help="keep the clones here, and go on from those it holds")
    parser.add_argument("--json", type=Path, help="write the scores here; those of other files in it stay")
    return parser.parse_args()


def squad(version: str) -> dict[str, Any]:
    """An entry of `prepare` for what the mirror holds of SQuAD 1.1 or 2.0: 3,999 of 1.1's questions, and dev's."""
    source = str(Path(os.environ["BERTLINE_MIRROR"]).resolve() / "squad")
    files = {"train": "train-v1.1.subset800.json", "dev": f"dev-v{version}.reconstructed.json"}
    kind = {"kind": "span", "format": "squad", "language": "en", "unanswerable": version == "2.0"}
    return {"corpus": "custom", "source": source, "files": files, **kind}


def run(name: str, clone: Path, resources: dict[str, Any]) -> list[dict[str, Any]]:
    """Every run of a params file in its clone: score, interval, minutes; best runs of a task first."""
    if not clone.exists():
        cloned(name, clone, resources)
    os.chdir(clone)
    values = yaml.safe_load(params.FILE.read_text(encoding="utf-8"))
    runs = MIRRORED.get(name, list(values["evaluate"]))
    baselines = [key for key, entry in values["baseline"].items() if entry["task"] in _tasks(values, runs)]
    stages = {key: [*reversed(trainings(values, key))] for key in runs}
    every = [*dict.fromkeys(stage for listed in stages.values() for stage in listed)]
    executor.run(
        [f"encode@{values[stage][key]['data']}" for stage, key in (stage_key.split("@") for stage_key in every)]
    )
    seconds = timed(every, clone.with_suffix(".json"))
    executor.run([*(f"baseline@{key}" for key in baselines), *(f"evaluate@{key}" for key in runs)])
    results = [
        scored(key, {s: seconds[s] for s in stages.get(key, [])}) | {"file": name} for key in (*runs, *baselines)
    ]
    return sorted(results, key=lambda row: (row["task"], -row["score"]))


def cloned(name: str, clone: Path, resources: dict[str, Any]) -> None:
    """A fresh clone that uses a params file, for the mirror's part of it."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    use = [sys.executable, "-m", "flows.cli", "use", f"params/{name}.yaml"]
    subprocess.run(use, check=True, cwd=clone)
    file = clone / params.FILE
    values = yaml.safe_load(file.read_text(encoding="utf-8"))
    values["resources"] |= resources
    if name == "squad":
        values["prepare"] |= {"squad1": squad("1.1"), "squad2": squad("2.0")}
        values["ingest"] = {}
    file.write_text(yaml.safe_dump(values, allow_unicode=True), encoding="utf-8")


def timed(stages: list[str], file: Path) -> dict[str, float | None]:
    """Seconds of each stage, by the file `kept` where it ran before; None where it was cut off."""
    seconds: dict[str, float | None] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for stage in stages:
        if seconds.get(stage):
            continue
        known = stage not in seconds
        file.write_text(json.dumps(seconds | {stage: None}), encoding="utf-8")
        start = time.perf_counter()
        executor.run([stage])
        seconds[stage] = time.perf_counter() - start if known else None
        file.write_text(json.dumps(seconds), encoding="utf-8")
    return seconds


def _tasks(values: dict[str, Any], runs: list[str]) -> set[str]:
    return {values["evaluate"][key]["task"] for key in runs}


def trainings(values: dict[str, Any], key: str) -> list[str]:
    """The stages that trained the run `key`: itself, and where it started from."""
    for stage in STAGES:
        if key in values[stage]:
            entry = values[stage][key]
            before = Path(entry.get("encoder", "")).name if stage == "finetune" else entry.get("teacher", "")
            return [f"{stage}@{key}", *trainings(values, before)]
    return []


def scored(key: str, seconds: dict[str, float | None]) -> dict[str, Any]:
    """A line of the table, from the run's metrics."""
    record = json.loads(paths.metrics(key).read_text(encoding="utf-8"))
    metric, minutes = record["metric"], {stage: spent and round(spent / 60, 1) for stage, spent in seconds.items()}
    score = round(record["metrics"][metric], 3)
    low, high = (round(bound, 3) for bound in record["interval"])
    facts = {name: record[name] for name in ("run", "how", "task", "rows", "metric")}
    return facts | {"score": score, "interval": [low, high], "minutes": minutes}


def main() -> None:
    options = arguments()
    to = options.json.resolve() if options.json else None
    os.environ["BERTLINE_MIRROR"] = str(Path(os.environ["BERTLINE_MIRROR"]).resolve())
    resources = {"precision": options.precision} | ({"threads": options.threads} if options.threads else {})
    for name in options.names:
        with tempfile.TemporaryDirectory() as place:
            clone = (options.folder or Path(place)).resolve() / name
            os.environ["PYTHONPATH"] = str(clone)
            results = run(name, clone, resources)
            os.chdir(ROOT)
        print(json.dumps(results, indent=1))
        if to:  # after each file: they take long
            old_results = harness.kept(to, "runs")
            runs = sorted(
                [row for row in old_results if row["file"] != name] + results,
                key=lambda row: row["file"],
            )
            files = " ".join(dict.fromkeys(row["file"] for row in runs))
            command = f"python benchmarks/ready_made.py {files} --precision {options.precision}"
            command += f" --threads {options.threads}" if options.threads else ""
            harness.write(to, ("torch", "transformers"), command=command, runs=runs)


if __name__ == "__main__":
    main()
