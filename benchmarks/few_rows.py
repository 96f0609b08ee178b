"""Classes from few rows: what `bertline new` writes beside SetFit (Tunstall et al. 2022) and Ludwig, with one encoder.

All train on the same rows of SST-2 from BERTLINE_MIRROR and answer the same ones; one core each.
SetFit and Ludwig need environments of their own; what is not named is left out, and its earlier runs stay.

    python benchmarks/few_rows.py --setfit PYTHON --ludwig PYTHON --json benchmarks/results/few_rows.json
"""

import argparse
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
import recipes

from pipelines.evaluation import significance

ENCODER = recipes.ROOT / "encoders/mini-en"
COMMAND = "python benchmarks/few_rows.py --setfit PYTHON --ludwig PYTHON --json benchmarks/results/few_rows.json"
PAIRS = (2, 20)  # of each row; 20 was SetFit's default for long, and takes ten times as long as 2
ENCODERS = {"the same encoder, 20 epochs": str(ENCODER), "its own encoder, as it comes": ""}  # Ludwig's


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100 rows, one epoch, and 2 pairs of each row")
    parser.add_argument("--setfit", metavar="PYTHON", help="the Python of an environment with SetFit")
    parser.add_argument("--ludwig", metavar="PYTHON", help="the Python of an environment with Ludwig")
    parser.add_argument("--rows", nargs="*", type=int, default=[100, 600], help="rows to train on")
    parser.add_argument("--pairs", nargs="*", type=int, default=list(PAIRS), help="SetFit's pairs of each row")
    parser.add_argument("--json", type=Path, help="write the scores here; other runs in it stay")
    return parser.parse_args()


def peer(python: str, script: str, rows: int, run: str, how: str, *words: str) -> dict[str, Any]:
    """The record of a training by another library on the files that `recipes.scores` has written."""
    folder = str(Path("own", f"sentiment-en-{rows}"))
    command = [python, recipes.ROOT / "benchmarks" / script, folder, *words]
    # it would ask the hub for a model card
    done = subprocess.run(command, env=os.environ | {"HF_HUB_OFFLINE": "1"}, check=True, stdout=subprocess.PIPE)
    scored = json.loads(done.stdout.splitlines()[-1])
    facts = {"file": "sentiment-en", "run": run, "how": how, "rows": rows, "metric": "accuracy"}
    interval = [round(bound, 4) for bound in significance.share_interval(scored["score"], recipes.TEST_ROWS)]
    minutes = {"finetune": round(scored["seconds"] / 60, 1)}
    return {**facts, "score": round(scored["score"], 4), "interval": interval, "minutes": minutes}


def runs(rows: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    options.settings = ["recipe"]
    tables = recipes.rows_of(recipes.CORPORA["sentiment-en"])
    yield from recipes.scores("sentiment-en", tables, rows, options)
    for pairs in ([2] if options.quick else options.pairs) if options.setfit else []:
        how = f"{pairs} pairs of each row"
        yield peer(options.setfit, "setfit_peer.py", rows, "SetFit", how, str(ENCODER), str(pairs))
    for how, encoder in ENCODERS.items() if options.ludwig else ():
        yield peer(options.ludwig, "ludwig_peer.py", rows, "Ludwig", how, encoder)


def main() -> None:
    options = arguments()
    to = options.json.resolve() if options.json else None
    with harness.empty_folder():
        Path("encoders").symlink_to(recipes.ROOT / "encoders")
        for rows in [100] if options.quick else options.rows:
            for run in runs(rows, options):
                print(json.dumps(run), flush=True)
                keep(to, run)


def keep(to: Path | None, run: dict[str, Any]) -> None:
    """Write a run beside those of earlier commands, in the place of its own earlier one."""
    if not to:
        return
    runs = [record for record in harness.kept(to, "runs") if _name(record) != _name(run)]
    harness.write(to, ("torch", "transformers"), command=COMMAND, runs=sorted([*runs, run], key=_name))


def _name(run: dict[str, Any]) -> tuple[int, int, str]:
    """What tells a run from others, in the order of the table."""
    return run["rows"], ("baseline", "recipe", "SetFit", "Ludwig").index(run["run"]), run["how"]


if __name__ == "__main__":
    main()
