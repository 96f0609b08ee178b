"""The registered versions of a model as a list: aliases, commit, runtime, who approved each, and the gate's verdict."""

import json
from typing import Any

from pipelines.core.errors import printable
from pipelines.lifecycle import approval
from pipelines.reports.run_tables import aligned
from pipelines.tracking import ledger, ledger_events, registry

HEADER = ("version", "alias", "commit", "runtime", "gate", "approved by")


def listed(name: str) -> list[dict[str, Any]]:
    """{"version", "aliases", "commit", "run", "md5", "runtime", "passed", "approved_by"} of each version, oldest first.

    `passed` is None for a version that the gate has not measured. Raises InputError if there is no such model.
    """
    aliases: dict[int, list[str]] = {}
    for alias, number in registry.aliases_of(name).items():
        if alias != ledger_events.CHAMPION:
            aliases.setdefault(int(number), []).append(alias)
    if champion := ledger.champion(name):
        aliases.setdefault(champion, []).append(ledger_events.CHAMPION)
    return [_row(version, sorted(aliases.get(version.version, []))) for version in registry.versions(name)]


def _row(version: registry.Version, aliases: list[str]) -> dict[str, Any]:
    tags = version.tags
    return {
        "version": version.version,
        "aliases": aliases,
        "commit": tags.get("git_commit", ""),
        "run": tags.get("run", ""),
        "md5": tags.get("md5", ""),
        "runtime": tags.get(registry.RUNTIME, ""),
        "passed": _passed(tags.get("verdict", "")),
        "approved_by": approval.approver(version) or ("a tag" if approval.is_approved(version) else ""),
    }


def _passed(verdict: str) -> bool | None:
    try:
        decided = json.loads(verdict)
        passed = None if decided.get("gate") == "off" else decided["passed"]
    except (ValueError, KeyError, TypeError, AttributeError):  # whoever may register may write the tag
        return None
    return passed if isinstance(passed, bool) else None


def plain(rows: list[dict[str, Any]]) -> str:
    """A table with a line for each version."""
    verdicts = {True: "passed", False: "refused", None: "-"}
    lines = [
        (
            str(row["version"]),
            ", ".join(row["aliases"]) or "-",
            row["commit"][:10] or "-",
            row["runtime"] or "-",
            verdicts[row["passed"]],
            row["approved_by"] or "-",
        )
        for row in rows
    ]
    return printable(aligned([HEADER, *lines], text=len(HEADER)), keep="\n")
