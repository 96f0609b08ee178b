"""Classes from few rows: what `bertline new` writes beside SetFit (Tunstall et al. 2022), with one encoder.

Both train on the same rows of SST-2 from BERTLINE_MIRROR and answer the same ones; one core each.
SetFit needs an environment of its own.

    python benchmarks/few_rows.py --setfit PYTHON --rows 100 600 --json benchmarks/results/few_rows.json
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
COMMAND = "python benchmarks/few_rows.py --setfit PYTHON --json benchmarks/results/few_rows.json"
PAIRS = (2, 20)  # of each row; 20 was SetFit's default for long, and takes ten times as long as 2


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100 rows, one epoch, and 2 pairs of each row")
    parser.add_argument("--setfit", metavar="PYTHON", required=True, help="the Python of an environment with SetFit")
    parser.add_argument("--rows", nargs="*", type=int, default=[100, 600], help="rows to train on")
    parser.add_argument("--pairs", nargs="*", type=int, default=list(PAIRS), help="SetFit's pairs of each row")
    parser.add_argument("--json", type=Path, help="write the scores here")
    return parser.parse_args()


def setfit(python: str, rows: int, pairs: int) -> dict[str, Any]:
    """The record of a training by SetFit on the files that `recipes.scores` has written."""
    folder = Path("own", f"sentiment-en-{rows}")
    command = [python, recipes.ROOT / "benchmarks/setfit_peer.py", ENCODER, folder, str(pairs)]
    # it would ask the hub for a model card
    done = subprocess.run(command, env=os.environ | {"HF_HUB_OFFLINE": "1"}, check=True, stdout=subprocess.PIPE)
    scored = json.loads(done.stdout.splitlines()[-1])
    facts = {"file": "sentiment-en", "run": "SetFit", "how": f"{pairs} pairs of each row", "rows": rows}
    interval = [round(bound, 4) for bound in significance.share_interval(scored["score"], recipes.TEST_ROWS)]
    minutes = {"finetune": round(scored["seconds"] / 60, 1)}
    return {**facts, "metric": "accuracy", "score": round(scored["score"], 4), "interval": interval, "minutes": minutes}


def runs(rows: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    options.settings = ["recipe"]
    tables = recipes.rows_of(recipes.CORPORA["sentiment-en"])
    yield from recipes.scores("sentiment-en", tables, rows, options)
    for pairs in [2] if options.quick else options.pairs:
        yield setfit(options.setfit, rows, pairs)


def main() -> None:
    options = arguments()
    to = options.json.resolve() if options.json else None
    made: list[dict[str, Any]] = []
    with harness.empty_folder():
        Path("encoders").symlink_to(recipes.ROOT / "encoders")
        for rows in [100] if options.quick else options.rows:
            for run in runs(rows, options):
                print(json.dumps(run), flush=True)
                made.append(run)
                if to:
                    harness.write(to, ("torch", "transformers"), command=COMMAND, runs=made)


if __name__ == "__main__":
    main()
