"""Write RESULTS.md from the claims in benchmarks/results/*.json: python benchmarks/results.py."""

import json
import textwrap
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
HEAD = """# Results

Written by `python benchmarks/results.py` from `benchmarks/results/*.json`, which the commands below
made. Ratios of medians, with the least and the most of the rounds; the machine is shared and noisy.
"""


def section(file: Path) -> str:
    """A benchmark's claims, or its runs, as a table, with its command, machine and notes."""
    found = json.loads(file.read_text(encoding="utf-8"))
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    machine = textwrap.fill(f"On {found['cores']} cores; CPU: {found['cpu']}; {versions}.", 100)
    lines = [f"\n## {file.stem}\n", f"```sh\n{found['command']}\n```\n", f"{machine}\n"]
    lines += _runs(found["runs"]) if "runs" in found else _claims(found["claims"])
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


def text() -> str:
    return HEAD + "".join(section(file) for file in sorted((HERE / "results").glob("*.json")))


if __name__ == "__main__":
    (HERE / "RESULTS.md").write_text(text(), encoding="utf-8")
