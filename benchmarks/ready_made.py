"""The ready-made params files as a user runs them: a fresh clone, `bertline use params/NAME.yaml`, `dvc repro`; nothing cut.

For every run its score with the 95% interval, and the minutes of its stages that train, a start of Python included. What the
file holds of other params files stays. Of `glue`, `jglue` and `squad` the mirror has a part: that part is run.

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

ROOT = Path(__file__).resolve().parents[1]
TRAIN = ("pretrain", "finetune", "compress")
# file -> the runs whose corpora the mirror has; all of them where it is not named
MIRRORED = {"glue": ["cola", "sst2", "stsb", "rte", "wnli"], "jglue": ["jsts", "jcommonsenseqa"]}


def arguments() -> argparse.Namespace:
    files = sorted(file.stem for file in (ROOT / "params").glob("*.yaml"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=files)
    parser.add_argument("--precision", default="auto", choices=("auto", "fp32", "bf16"))
    parser.add_argument("--threads", type=int, help="of every stage; as many as there are cores if left out")
    parser.add_argument("--json", type=Path, help="write the scores here; those of other files in it stay")
    return parser.parse_args()


def squad(version: str) -> dict[str, Any]:
    """An entry of `prepare` for what the mirror holds of SQuAD 1.1 or 2.0: 800 questions to train on, and dev's."""
    source = str(Path(os.environ["BERTLINE_MIRROR"]).resolve() / "squad")
    files = {"train": "train-v1.1.subset800.json", "dev": f"dev-v{version}.reconstructed.json"}
    kind = {"kind": "span", "format": "squad", "language": "en", "unanswerable": version == "2.0"}
    return {"corpus": "custom", "source": source, "files": files, **kind}


def run(name: str, clone: Path, resources: dict[str, Any]) -> list[dict[str, Any]]:
    """Every run of a params file in a fresh clone: score, interval, minutes; best runs of a task first."""
    python = [sys.executable, "-m"]
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    subprocess.run([*python, "flows.cli", "use", f"params/{name}.yaml"], cwd=clone, check=True)
    values = yaml.safe_load((clone / "params.yaml").read_text(encoding="utf-8"))
    values["resources"] |= resources
    if name == "squad":
        values["prepare"] |= {"squad1": squad("1.1"), "squad2": squad("2.0")}
        values["ingest"] = {}
    (clone / "params.yaml").write_text(yaml.safe_dump(values, allow_unicode=True), encoding="utf-8")
    runs = MIRRORED.get(name, list(values["evaluate"]))
    floors = [key for key, entry in values["floor"].items() if entry["task"] in _tasks(values, runs)]
    targets = [*(f"floor@{key}" for key in floors), *(f"evaluate@{key}" for key in runs)]
    seconds = reproduce([*python, "dvc", "repro", *targets], clone)
    found = [scored(clone, key, trainings(values, key), seconds) | {"file": name} for key in (*runs, *floors)]
    return sorted(found, key=lambda each: (each["task"], -each["score"]))


def _tasks(values: dict[str, Any], runs: list[str]) -> set[str]:
    return {values["evaluate"][key]["task"] for key in runs}


def reproduce(command: list[str], folder: Path) -> dict[str, float]:
    """Seconds of each stage that `dvc repro` runs, by its own lines."""
    started: list[tuple[str, float]] = []
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as dvc:
        assert dvc.stdout is not None
        for line in dvc.stdout:
            if line.startswith("Running stage '"):
                started.append((line.split("'")[1], time.perf_counter()))
                print(started[-1][0], flush=True)
    if dvc.returncode:
        raise SystemExit(f"{folder}: `{' '.join(command[2:])}` ended with {dvc.returncode}")
    ends = [begun for _, begun in started[1:]] + [time.perf_counter()]
    return {stage: end - begun for (stage, begun), end in zip(started, ends, strict=True)}


def trainings(values: dict[str, Any], key: str) -> list[str]:
    """The stages that trained the run `key`: itself, and where it started from."""
    for stage in TRAIN:
        if key in values[stage]:
            entry = values[stage][key]
            before = Path(entry.get("encoder", "")).name if stage == "finetune" else entry.get("teacher", "")
            return [f"{stage}@{key}", *trainings(values, before)]
    return []


def scored(clone: Path, key: str, stages: list[str], seconds: dict[str, float]) -> dict[str, Any]:
    """A line of the table, from the run's metrics."""
    record = json.loads((clone / f"artifacts/metrics/{key}.json").read_text(encoding="utf-8"))
    metric, minutes = record["metric"], {stage: round(seconds[stage] / 60, 1) for stage in stages}
    score = round(record["metrics"][metric], 3)
    low, high = (round(bound, 3) for bound in record["interval"])
    facts = {name: record[name] for name in ("run", "how", "task", "rows", "metric")}
    return facts | {"score": score, "interval": [low, high], "minutes": minutes}


def main() -> None:
    given = arguments()
    to = given.json.resolve() if given.json else None
    os.environ["BERTLINE_MIRROR"] = str(Path(os.environ["BERTLINE_MIRROR"]).resolve())
    resources = {"precision": given.precision} | ({"threads": given.threads} if given.threads else {})
    for name in given.names:
        with tempfile.TemporaryDirectory() as place:
            os.environ["PYTHONPATH"] = str(Path(place) / "clone")
            made = run(name, Path(place) / "clone", resources)
        print(json.dumps(made, indent=1))
        if to:  # after each file: they take long
            kept = json.loads(to.read_text(encoding="utf-8"))["runs"] if to.is_file() else []
            runs = sorted([each for each in kept if each["file"] != name] + made, key=lambda each: each["file"])
            files = " ".join(dict.fromkeys(each["file"] for each in runs))
            command = f"python benchmarks/ready_made.py {files} --precision {given.precision}"
            command += f" --threads {given.threads}" if given.threads else ""
            harness.write(to, ("torch", "transformers"), command=command, runs=runs)


if __name__ == "__main__":
    main()
