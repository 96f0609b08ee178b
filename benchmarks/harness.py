"""What every benchmark shares: contenders timed in turn, medians, claims as JSON, a table."""

import argparse
import json
import os
import platform
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any


@dataclass
class Claim:
    """A ratio or a score, with its peer in its name; `ok` is whether the aim is reached.

    Without an aim it is information.
    """

    name: str
    aim: float | None
    measured: float
    spread: tuple[float, float]
    ok: bool


def arguments(what: str) -> argparse.Namespace:
    """--quick for a minute's run, --json FILE for the claims."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--quick", action="store_true", help="fewer texts and repeats, within a minute")
    parser.add_argument("--json", type=Path, help="write the claims here")
    return parser.parse_args()


def of_checkout(what: str) -> argparse.Namespace:
    """FOLDER, a checkout, and RUNS that it made; --json FILE for the claims."""
    parser = argparse.ArgumentParser(description=what, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


@contextmanager
def empty_folder() -> Iterator[None]:
    """Work in an empty folder, without the messages of stages; BERTLINE_MIRROR may be relative to the one before."""
    os.environ.setdefault("BERTLINE_QUIET", "1")
    os.environ["BERTLINE_MIRROR"] = str(Path(os.environ["BERTLINE_MIRROR"]).resolve())
    with tempfile.TemporaryDirectory() as place, chdir(place):
        yield


def in_turn(
    contenders: dict[str, Callable[[], Any]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each contender, once each in every round, so that a slow minute of the machine meets all of them.

    `clock`: time.process_time counts seconds of a core in place of those of a clock.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, work in contenders.items():
            start = clock()
            work()
            seconds[name].append(clock() - start)
    return seconds


def ratio(name: str, aim: float | None, peer: list[float], ours: list[float]) -> Claim:
    """How many times faster `ours` is than `peer`: of the medians, and the least and most of the rounds."""
    rounds = [a / b for a, b in zip(peer, ours, strict=True)]
    measured = statistics.median(peer) / statistics.median(ours)
    return Claim(
        name, aim, round(measured, 2), (round(min(rounds), 2), round(max(rounds), 2)), aim is None or measured >= aim
    )


def difference(name: str, measured: float, interval: tuple[float, float]) -> list[Claim]:
    """A difference as information, and whether its interval reaches 0, so that it does not show ours to be worse."""
    low, high = (round(float(bound), 4) for bound in interval)
    return [
        Claim(name, None, round(float(measured), 4), (low, high), ok=True),
        Claim(f"upper_end_of_the_interval_of_{name}", 0, high, (high, high), high >= 0),
    ]


def matrix_peak() -> float:
    """GFLOP/s of one large fp32 product, median of seven, by the faster of torch's two libraries."""
    import torch

    from pipelines.acceleration import onednn_linear

    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    by: dict[str, Callable[[], Any]] = {"MKL": lambda: a @ b, "oneDNN": lambda: onednn_linear.product(a, b)}
    return 2 * 2048**3 / min(statistics.median(times[1:]) for times in in_turn(by, 8).values()) / 1e9


def report(claims: list[Claim], packages: tuple[str, ...], to: Path | None, **facts: Any) -> None:
    """Print the claims, and write them where they are asked for."""
    width = max(len(claim.name) for claim in claims)
    print(f"{'claim':<{width}}  {'aim':>7}  {'measured':>8}  spread")
    for claim in claims:
        low, high = claim.spread
        verdict = "" if claim.ok else "  short of its aim"
        aim = "" if claim.aim is None else f"{claim.aim:g}"
        print(f"{claim.name:<{width}}  {aim:>7}  {claim.measured:>8g}  {low:g}-{high:g}{verdict}")
    if to:
        write(to, packages, claims=[asdict(claim) for claim in claims], **facts)


def write(to: Path, packages: tuple[str, ...], **facts: Any) -> None:
    """The facts of a run with its command, versions, cores and CPU, as JSON."""
    about = {
        "command": f"python {shlex.join([os.path.relpath(sys.argv[0]), *sys.argv[1:]])}",
        "versions": {name: version(name) for name in packages},
        "cores": os.cpu_count(),
        "cpu": cpu(),
    }
    to.write_text(json.dumps(about | facts, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def kept(file: Path | None, key: str) -> list[dict[str, Any]]:
    """What an earlier run left under `key` in a file of results; nothing where the file is missing or empty."""
    if not file or not file.is_file() or not (text := file.read_text(encoding="utf-8")).strip():
        return []
    try:
        return json.loads(text)[key]
    except (ValueError, KeyError, TypeError):
        sys.exit(f"{file}: not a file of results; name another, or remove it")


def cpu() -> str:
    """The CPU's model, and which of the instructions it has that products of matrices are fast by."""
    about = Path("/proc/cpuinfo")
    if not about.is_file():
        return platform.processor() or platform.machine()
    pairs = (line.partition(":") for line in about.read_text(encoding="utf-8").split("\n\n")[0].splitlines())
    facts = {name.strip(): value.strip() for name, _, value in pairs}
    flags = [flag for flag in facts.get("flags", "").split() if flag.startswith(("avx", "amx"))]
    family = f"family {facts.get('cpu family', '?')}, model {facts.get('model', '?')}"
    return f"{facts.get('model name', platform.machine())} ({family}); {' '.join(sorted(flags))}"
