"""The gate's verdict on a version, kept in MLflow: as JSON in a tag, and as a table in the description."""

import json
from typing import Any

from pipelines.tracking import store
from pipelines.tracking.registry import Version

DESCRIBED = 5000  # the most characters of a description in MLflow's databases; a tag of a version may have 100,000


def describe(version: Version, verdict: dict[str, Any]) -> None:
    """Keep the gate's verdict with a version: as JSON in the tag `verdict`, and as a table in its description."""
    client, tag, table = store.connect(), json.dumps(verdict), _table(verdict)
    if len(table) > DESCRIBED:
        cut = "\n\nThe tag `verdict` has all of it."
        table = table[: table.rindex("\n", 0, DESCRIBED - len(cut))] + cut
    with store.explained(f"{version}: its verdict cannot be saved"):
        client.set_model_version_tag(version.name, str(version.version), "verdict", tag)
        client.update_model_version(version.name, str(version.version), table)


def _table(verdict: dict[str, Any]) -> str:
    """A Markdown table with a row for each rule; MLflow renders it."""
    if not verdict["findings"]:
        return "The gate is off: nothing was measured."
    rows = [
        [finding["rule"], f"{finding['found']:.4g}", f"{finding['asked']:.4g}", "yes" if finding["passed"] else "no"]
        for finding in verdict["findings"]
    ]
    lines = [["rule", "found", "asked", "passed"], ["---"] * 4, *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
