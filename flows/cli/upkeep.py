"""The commands that look after a checkout: its status, and what is wrong with its machine."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer

from flows.cli.arguments import FAILED, group, json_with, print_answer
from flows.cli.panels import LOOK_AFTER, listed
from pipelines.core.errors import printable

cli = group()
STATUS = "stale, champions, last_runs, drift, disk, served, schedules"


@cli.command(**listed(LOOK_AFTER, "bertline status", "bertline status --json"))
def status(as_json: Annotated[bool, json_with(STATUS)] = False) -> None:
    """Print on one screen what is stale, served, champion, scheduled and drifting, what ran last, and the disk used."""
    from flows.local import reachable
    from pipelines.lifecycle import status as of_checkout
    from pipelines.reports import status_text

    answer = of_checkout.parts() | {"served": reachable.served(), "schedules": reachable.flow_runs()}
    print_answer(answer, as_json, status_text.plain)


@cli.command(**listed(LOOK_AFTER, "bertline doctor", "bertline doctor --json"))
def doctor(as_json: Annotated[bool, json_with("a list of objects: check, state, says, mend")] = False) -> None:
    """Check the installation, the machine and this checkout; print what is wrong, and the command that mends it."""
    from flows.local import checkup

    findings = [asdict(finding) for finding in checkup.findings()]
    print_answer(findings, as_json, lambda rows: "\n".join(_lines(rows)))
    if any(finding["state"] == "problem" for finding in findings):
        raise typer.Exit(FAILED)


def _lines(findings: list[dict[str, str]]) -> Iterator[str]:
    """A line for each finding, and below those that are not ok the command that mends them."""
    width = max(len(finding["check"]) for finding in findings)
    for finding in findings:
        yield printable(f"{finding['state']:7}  {finding['check']:{width}}  {finding['says']}")
        if finding["state"] != "ok":
            yield f"{'':7}  {'':{width}}  -> {finding['mend']}"
