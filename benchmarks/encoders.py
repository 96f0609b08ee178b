"""What pretraining bought: every task by our encoder, by random weights of its shape, and by its baseline; three seeds.

The runs are those of the ready-made params files, through the stages themselves, on the corpora in BERTLINE_MIRROR;
rows and epochs are cut as JOBS says, the same for all. A claim compares the mean score of our encoder with the aim that
stands in its name: the baseline on the same rows, a published score, or random weights.

    python benchmarks/encoders.py --only livedoor jsts --json benchmarks/results/encoders.json
"""

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import harness
import yaml
from transformers import AutoModelForMaskedLM

from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import pretrained
from pipelines.core import paths
from pipelines.stages import baseline, build_vocab, encode, evaluate, finetune, ingest, prepare, pretrain
from pipelines.text import tokenizer

ROOT = Path(__file__).resolve().parents[1]


class Job(NamedTuple):
    """A fine-tuning entry of a params file, and what is published for a BERT of this size (None: nothing)."""

    file: str
    run: str
    language: str
    published: float | None = None
    fit: dict[str, Any] = {}  # changes to the entry
    prepare: dict[str, Any] = {}  # changes to its rows


JOBS = {
    "livedoor": Job("livedoor", "livedoor-full", "ja", 0.83),
    "livedoor-adapted": Job("livedoor", "livedoor-adapted", "ja", 0.83),
    "jsts": Job("jglue", "jsts", "ja", fit={"max_train_rows": 6000, "epochs": 3}),
    "jcommonsenseqa": Job("jglue", "jcommonsenseqa", "ja", fit={"max_train_rows": 3000, "epochs": 3}),
    "ner": Job("ner", "ner", "ja", fit={"epochs": 4}),
    "jaquad": Job("jaquad", "jaquad", "ja", prepare={"sample": 0.1}),
    "sst2": Job("glue", "sst2", "en", 0.859),
    "stsb": Job("glue", "stsb", "en", 0.754),
    "cola": Job("glue", "cola", "en", 0.0),
    "rte": Job("glue", "rte", "en", 0.579),
    "wnli": Job("glue", "wnli", "en", 0.623),
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed, few rows, within a minute or so a task")
    parser.add_argument("--only", nargs="*", default=list(JOBS), choices=JOBS, help="these tasks alone")
    parser.add_argument("--precision", default="auto", choices=("auto", "fp32", "bf16"))
    parser.add_argument("--json", type=Path, help="write the claims here; other tasks' claims in it stay")
    return parser.parse_args()


def scores(job: Job, seeds: list[int], quick: bool, precision: str) -> dict[str, list[float]]:
    """Of "ours", "random" and "baseline" the task's metric, a number a seed."""
    values = yaml.safe_load((ROOT / "params" / f"{job.file}.yaml").read_text(encoding="utf-8"))
    values["resources"] = {"workers": 0, "precision": precision}
    entry = values["finetune"][job.run] | job.fit | ({"max_train_rows": 200, "epochs": 1} if quick else {})
    task = values["encode"][entry["data"]]["task"]
    values["prepare"][task] |= job.prepare | ({"sample": min(0.1, job.prepare.get("sample", 1))} if quick else {})
    for pretraining in values["pretrain"].values() if quick else ():
        pretraining["epochs"] = 0.02
    evaluation = values["evaluate"][job.run]
    starts = {"ours": entry["encoder"], "random": f"artifacts/models/random-{job.run}"}
    runs = {f"{start}-{seed}": entry | {"encoder": starts[start], "seed": seed} for start in starts for seed in seeds}
    values |= {"finetune": runs, "evaluate": dict.fromkeys(runs, evaluation), "baseline": {"baseline": evaluation}}
    values |= {"compress": {}, "export": {}, "promote": {}}
    Path("params.yaml").write_text(yaml.safe_dump(values, allow_unicode=True))
    ingest.main(Path(values["prepare"][task]["source"]).name)
    encoded(values, entry["data"])
    baseline.main("baseline")
    adapted = Path(entry["encoder"])
    if adapted.parts[0] == "artifacts":
        encoded(values, values["pretrain"][adapted.name]["data"])
        pretrain.main(adapted.name)
    random_encoder(job.language, paths.encoded(entry["data"]) / "tokenizer", Path(starts["random"]))
    for run in runs:
        finetune.main(run)
        evaluate.main(run)
    scores_of = {start: [_score(f"{start}-{seed}") for seed in seeds] for start in starts}
    return {**scores_of, "baseline": [_score("baseline")]}


def encoded(values: dict[str, Any], data: str) -> None:
    """The stages from rows to the ids of an entry of `encode`, its vocabulary's among them."""
    entry = values["encode"][data]
    prepare.main(entry["task"])
    vocab = Path(entry["vocab"])
    if vocab.parts[0] == "artifacts" and not vocab.exists():
        if (rows := values["build_vocab"][vocab.name]["rows"]) != entry["task"]:
            prepare.main(rows)
        build_vocab.main(vocab.name)
    encode.main(data)


def _score(run: str) -> float:
    record = json.loads(paths.metrics(run).read_text(encoding="utf-8"))
    return record["metrics"][record["metric"]]


def random_encoder(language: str, words: Path, target: Path) -> None:
    """Random weights of the shape of encoders/mini-<language>, under the vocabulary of the folder `words`."""
    config = Path(f"random-{language}.json")
    config.write_text((ROOT / f"encoders/mini-{language}/config.json").read_text())
    model = pretrained.start(config, {}, AutoModelForMaskedLM, tokenizer.load(words), seed=1)
    target.mkdir(parents=True, exist_ok=True)
    model_folder.save(model, target, words)


def claims(name: str, job: Job, scores_of: dict[str, list[float]]) -> list[harness.Claim]:
    """Our mean against the baseline, the published score and random weights."""
    ours = statistics.mean(scores_of["ours"])
    spread = (round(min(scores_of["ours"]), 4), round(max(scores_of["ours"]), 4))
    aims = {"baseline": scores_of["baseline"][0], "random_weights": statistics.mean(scores_of["random"])}
    aims |= {"published_or_aim": job.published} if job.published is not None else {}
    return [
        harness.Claim(f"{name}_vs_{peer}", round(aim, 4), round(ours, 4), spread, ours >= aim)
        for peer, aim in aims.items()
    ]


def main() -> None:
    options = arguments()
    os.environ.setdefault("BERTLINE_QUIET", "1")
    os.environ["BERTLINE_MIRROR"] = str(Path(os.environ["BERTLINE_MIRROR"]).resolve())
    to = options.json.resolve() if options.json else None
    old_claims = harness.kept(to, "claims")
    new_claims: list[harness.Claim] = []
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        Path("encoders").symlink_to(ROOT / "encoders")
        Path("samples").symlink_to(ROOT / "samples")
        for name in options.only:
            job = JOBS[name]
            run_scores = scores(job, [1] if options.quick else [1, 2, 3], options.quick, options.precision)
            print(name, {who: [round(score, 4) for score in values] for who, values in run_scores.items()}, flush=True)
            new_claims += claims(name, job, run_scores)
        os.chdir(ROOT)
    old = [c for c in old_claims if c["name"].rpartition("_vs_")[0] not in options.only]
    every = [harness.Claim(**{**c, "spread": tuple(c["spread"])}) for c in old] + new_claims
    command = f"python benchmarks/encoders.py --only {' '.join(named(every))} --precision {options.precision}"
    packages = ("torch", "transformers")
    harness.report(sorted(every, key=lambda c: c.name), packages, to, precision=options.precision, command=command)


def named(claims_made: list[harness.Claim]) -> list[str]:
    """The tasks of the claims, those of other runs among them, as --only takes them."""
    return sorted({claim.name.rpartition("_vs_")[0] for claim in claims_made})


if __name__ == "__main__":
    main()
