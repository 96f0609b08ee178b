"""Write RESULTS.md from the claims in benchmarks/results/*.json: python benchmarks/results.py."""

import json
import textwrap
from pathlib import Path
from statistics import fmean
from typing import Any

HERE = Path(__file__).parent
NO_GPU = "not yet run: no GPU was at hand"
WAITING = {"gpu": NO_GPU, "gpu_predict": NO_GPU}  # benchmarks that need what not every machine has
HEAD = """# Results

Written by `python benchmarks/results.py` from `benchmarks/results/*.json`, which the commands below
made. Ratios of medians, with the least and the most of the rounds; the machine is shared and noisy.
"""


def section(file: Path) -> str:
    """A benchmark's claims, or its runs, as a table, with its command, machine and notes."""
    result = json.loads(file.read_text(encoding="utf-8"))
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    machine = textwrap.fill(f"On {result['cores']} cores; CPU: {result['cpu']}; {versions}.", 100)
    lines = [f"\n## {file.stem}\n", f"```sh\n{result['command']}\n```\n", f"{machine}\n"]
    if "device" in result:
        lines.append(f"Device: {result['device']}.\n")
    lines += _runs(result["runs"]) if "runs" in result else _claims(result["claims"])
    if "variants" in result:
        lines += [
            "",
            *_variants(result["teacher"], result["variants"]),
            "",
            *_speeds(result["teacher"], result["variants"]),
        ]
    if "files" in result:
        lines += ["", "| file | tests | seconds of a core | seconds |", "|---|---:|---:|---:|"]
        lines += [
            f"| {row['file']} | {row['tests']} | {row['core_seconds']} | {row['seconds']} |"
            for row in result["files"]
            if row["core_seconds"] > 9
        ]
    notes = HERE / "results" / f"{file.stem}.md"
    return "\n".join(lines) + "\n" + (f"\n{notes.read_text(encoding='utf-8')}" if notes.is_file() else "")


def _claims(claims: list[dict[str, Any]]) -> list[str]:
    lines = ["| claim | aim | measured | spread | |", "|---|---:|---:|---|---|"]
    for claim in claims:
        low, high = claim["spread"]
        verdict = "" if claim["ok"] else "short of its aim"
        aim = "" if claim["aim"] is None else f"{claim['aim']:g}"
        lines.append(f"| {claim['name']} | {aim} | {claim['measured']:g} | {low:g} to {high:g} | {verdict} |")
    return lines


def _runs(runs: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| params | run | how | rows | metric | score | 95% interval | minutes |",
        "|---|---|---|---:|---|---:|---|---|",
    ]
    for run in runs:
        low, high = run["interval"]
        minutes = ", ".join(f"{stage.partition('@')[0]} {spent or '?'}" for stage, spent in run["minutes"].items())
        lines.append(
            f"| {run['file']} | {run['run']} | {run['how']} | {run['rows']:,} | {run['metric']} | {run['score']:.3f} "
            f"| {low:.3f} to {high:.3f} | {minutes} |"
        )
    return lines


def _variants(teacher: dict[str, Any], variants: list[dict[str, Any]]) -> list[str]:
    """Scores over the seeds beside the teacher, bytes and operations, and what the method's paper kept."""
    scores = ", ".join(f"{score:.3f}" for score in teacher["scores"])
    says = (
        "Mean of the seeds, with the least and the most. Of the first seed the points between the run and its "
        f"teacher, with their 95% interval over the rows. {teacher['run']}, the teacher: {scores}."
    )
    lines = [
        f"{textwrap.fill(says, 100)}\n",
        "| run | methods | seeds | score | % of the teacher's | the paper's | points | bytes % | FLOPs % | zeros % |",
        "|---|---|---:|---:|---|---|---|---:|---:|---:|",
    ]
    for variant in variants:
        score, shares, (low, high) = fmean(variant["scores"]), sorted(variant["retention"]), variant["interval"]
        lines.append(
            f"| {variant['run']} | {', '.join(variant['methods'])} | {len(shares)} "
            f"| {score:.3f} | {100 * fmean(shares):.1f} "
            f"({100 * shares[0]:.1f} to {100 * shares[-1]:.1f}) | {variant['paper']} "
            f"| {variant['points'][0]:+.1f} ({low:+.1f} to {high:+.1f}) | {100 * variant['bytes_share']:.0f} "
            f"| {100 * variant['flops_share']:.0f} | {100 * variant['sparsity']:.0f} |"
        )
    return lines


def _speeds(teacher: dict[str, Any], variants: list[dict[str, Any]]) -> list[str]:
    """Speed by each runtime, beside the teacher by torch; slower ones say so by a number below 1."""
    cpus = sorted({speed["cpu"].partition(";")[0] for run in (teacher, *variants) for speed in run["speed"].values()})
    says = (
        "Times faster than the teacher by torch, measured in turn: median, least and most of the rounds. "
        f"On one thread of {'; '.join(cpus)}."
    )
    lines = [
        f"{textwrap.fill(says, 100)}\n",
        "| run | runtime | one row | many rows | p50, p95, p99 ms | rows/s | cold start s | peak MB |",
        "|---|---|---|---|---|---:|---:|---:|",
    ]
    for run in (teacher, *variants):
        for way, speed in run["speed"].items():
            cost, ratios = speed["cost"], [speed["faster"], speed["throughput"]]
            alone, many = (f"{middle:.2f} ({low:.2f} to {high:.2f})" for middle, low, high in ratios)
            lines.append(
                f"| {run['run']} | {way} | {alone} | {many} "
                f"| {cost['p50_ms']:.2f}, {cost['p95_ms']:.2f}, {cost['p99_ms']:.2f} "
                f"| {cost['rows_per_second']:,.0f} | {cost['cold_start_s']:.1f} | {cost['peak_mb']:,.0f} |"
            )
    return lines


def waiting(name: str) -> str:
    """The section of a benchmark without results."""
    command = f"python benchmarks/{name}.py --json benchmarks/results/{name}.json"
    return f"\n## {name}\n\n```sh\n{command}\n```\n\n{WAITING[name]}.\n"


def aims(files: dict[str, Path]) -> str:
    """All claims that have an aim, in one table."""
    claims = [
        (name, claim)
        for name, file in sorted(files.items())
        for claim in json.loads(file.read_text(encoding="utf-8")).get("claims", [])
        if claim["aim"] is not None
    ]
    short = sum(not claim["ok"] for _, claim in claims)
    says = f"{len(claims)} claims have an aim; {short} are short of it. The section of a benchmark says how and why."
    lines = [f"\n## Claims and aims\n\n{says}\n", "| benchmark | claim | aim | measured | |", "|---|---|---:|---:|---|"]
    for name, claim in claims:
        verdict = "" if claim["ok"] else "short of its aim"
        lines.append(f"| [{name}](#{name}) | {claim['name']} | {claim['aim']:g} | {claim['measured']:g} | {verdict} |")
    return "\n".join(lines) + "\n"


def text() -> str:
    files = {file.stem: file for file in (HERE / "results").glob("*.json")}
    names = sorted({*files, *WAITING})
    return HEAD + aims(files) + "".join(section(files[name]) if name in files else waiting(name) for name in names)


if __name__ == "__main__":
    (HERE / "RESULTS.md").write_text(text(), encoding="utf-8")
