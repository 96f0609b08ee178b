"""The quickstart's graph by `bertline run` against `dvc repro`: from nothing, side by side, and with nothing to do.

Each run from nothing has a copy of this checkout of its own. `dvc repro` starts a Python for each stage, one after the
other; `bertline run` forks from a warm process, as many at once as `resources` allows. Twelve fine-tunings of one
thread each, with the same warm process, one at a time and two at a time, show what side by side alone gives.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import harness
import yaml

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
ALIKE = 12  # independent runs
ROUNDS = 2  # each takes minutes


def checkout(place: Path) -> Path:
    """A copy of the files that this checkout tracks, without results of its graph, as a DVC repository."""
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, files.split("\0")):
        target = place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target, follow_symlinks=False)
    (place / "dvc.lock").unlink(missing_ok=True)
    call(place, "git", "init", "-q")
    return place


def call(place: Path, *command: str) -> None:
    environment = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "BERTLINE_QUIET": "1"}
    subprocess.run(command, cwd=place, env=environment, check=True, stdout=subprocess.DEVNULL)


def reproduce(place: Path) -> None:
    call(place, "dvc", "repro", "-q")


def run(place: Path, *more: str) -> None:
    call(place, "bertline", "run", *more)


def from_nothing(top: Path, rounds: int) -> list[harness.Claim]:
    """The whole graph, each time in a new checkout; then the same graph again, with nothing to do."""
    copies: dict[str, list[Path]] = {"theirs": [], "ours": []}
    for number in range(rounds):
        for who, places in copies.items():
            places.append(checkout(top / f"{who}-{number}"))
    waiting = {who: iter(places) for who, places in copies.items()}
    seconds = harness.in_turn(
        {"theirs": lambda: reproduce(next(waiting["theirs"])), "ours": lambda: run(next(waiting["ours"]))},
        rounds,
    )
    print({who: [round(duration) for duration in every] for who, every in seconds.items()})
    same = (copies["theirs"][0] / "dvc.lock").read_bytes() == (copies["ours"][0] / "dvc.lock").read_bytes()
    assert same, "the two wrote another dvc.lock"
    again = nothing_to_do(copies["ours"][0], 5)
    return [harness.ratio("from_nothing_vs_dvc_repro", 3.0, seconds["theirs"], seconds["ours"]), again]


def nothing_to_do(place: Path, rounds: int) -> harness.Claim:
    """An up-to-date graph: how soon either says so."""
    contenders: dict[str, Callable[[], None]] = {"theirs": lambda: reproduce(place), "ours": lambda: run(place)}
    seconds = harness.in_turn(contenders, rounds)
    print({who: [round(duration, 2) for duration in every] for who, every in seconds.items()})
    return harness.ratio("up_to_date_vs_dvc_repro", 1.0, seconds["theirs"], seconds["ours"])


def alike(top: Path, rounds: int) -> harness.Claim:
    """Twelve fine-tunings of one thread each: one at a time, and two at a time."""
    place = checkout(top / "alike")
    values = yaml.safe_load((place / "params.yaml").read_text(encoding="utf-8"))
    headlines = values["finetune"]["headlines"] | {"encoder": "encoders/mini-ja"}
    values["finetune"] = {f"run-{number}": headlines | {"seed": number} for number in range(ALIKE)}
    for section in ("pretrain", "compress", "baseline", "evaluate", "export", "promote", "tune"):
        values[section] = {}
    values["resources"] = {"threads": 1}
    (place / "params.yaml").write_text(yaml.safe_dump(values, allow_unicode=True), encoding="utf-8")
    names = [f"finetune@{name}" for name in values["finetune"]]
    run(place, "encode@headlines")

    def again(jobs: str) -> None:
        shutil.rmtree(place / "artifacts/models", ignore_errors=True)
        run(place, "--jobs", jobs, *names)

    seconds = harness.in_turn({"one": lambda: again("1"), "two": lambda: again("2")}, rounds)
    print({who: [round(duration) for duration in every] for who, every in seconds.items()})
    return harness.ratio("two_jobs_vs_one", 1.7, seconds["one"], seconds["two"])


def main() -> None:
    options = harness.arguments(__doc__ or "")
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        if options.quick:  # the first stages, which take seconds
            place = checkout(top / "quick")
            run(place, "encode@headlines")
            call(place, "dvc", "repro", "-q", "encode@headlines")
            contenders: dict[str, Callable[[], None]] = {
                "theirs": lambda: call(place, "dvc", "repro", "-q", "encode@headlines"),
                "ours": lambda: run(place, "encode@headlines"),
            }
            seconds = harness.in_turn(contenders, 3)
            claims = [harness.ratio("up_to_date_vs_dvc_repro", 1.0, seconds["theirs"], seconds["ours"])]
        else:
            claims = [*from_nothing(top, ROUNDS), alike(top, ROUNDS)]
    harness.report(claims, ("dvc", "torch", "transformers"), options.json)


if __name__ == "__main__":
    main()
