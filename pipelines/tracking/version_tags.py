"""Tags and the description of a registered version: what is written to it after its registration."""

import json
import re
from typing import Any

from pipelines.tracking import store
from pipelines.tracking.registry import Version
from pipelines.tracking.runs import NAME

DESCRIBED = 5000  # the most characters of a description in MLflow's databases; a tag of a version may have 100,000
LINKS = 12  # the most runs that a description names; `bertline lineage` has all
_RUN = re.compile(r"[0-9a-f]{32}")


def tag(version: Version, tags: dict[str, str]) -> None:
    """Set tags of a version, one after the other."""
    client = store.connect()
    with store.explained(f"{version}: its tags cannot be set"):
        for key, value in tags.items():
            client.set_model_version_tag(version.name, str(version.version), key, value)


def describe(version: Version, verdict: dict[str, Any]) -> None:
    """Keep the gate's verdict with a version: as JSON in the tag `verdict`, and as a table in its description."""
    client = store.connect()
    links = _links(version, store.experiment(client))
    table = _cut(_table(verdict), DESCRIBED - len(links))
    with store.explained(f"{version}: its verdict cannot be saved"):
        client.set_model_version_tag(version.name, str(version.version), "verdict", json.dumps(verdict))
        client.update_model_version(version.name, str(version.version), table + links)


def link(version: Version) -> None:
    """Describe a version that has no verdict yet by links to the runs that made it."""
    client = store.connect()
    if "verdict" not in version.tags and (links := _links(version, store.experiment(client))):
        with store.explained(f"{version}: its description cannot be set"):
            client.update_model_version(version.name, str(version.version), links.strip())


def _links(version: Version, experiment: str) -> str:
    """Links to the MLflow runs of the stages that made a version, the last first, as Markdown; "" without any."""
    try:
        stages = json.loads(version.tags.get("lineage", "[]"))
        runs = [(str(stage["stage"]), str(stage["run"])) for stage in reversed(stages)]
    except (ValueError, KeyError, TypeError):  # whoever may register may write the tag
        return ""
    links = [
        f"[{stage}](#/experiments/{experiment}/runs/{run})"
        for stage, run in runs
        if _RUN.fullmatch(run) and NAME.fullmatch(stage.replace("@", ""))
    ]
    return f"\n\nRuns: {', '.join(links[:LINKS])}" if links else ""


def _cut(table: str, most: int) -> str:
    """The table, without its last rows if it is longer than `most` characters."""
    if len(table) <= most:
        return table
    cut = "\n\nThe tag `verdict` has all of it."
    return table[: table.rindex("\n", 0, most - len(cut))] + cut


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
