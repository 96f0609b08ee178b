"""The deployments of prefect.yaml, and for each job under `score` in params.yaml its own: score, backfill, watch."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from pipelines.core import params, yaml_file
from pipelines.entries.score import Score

TEMPLATE, WRITTEN = Path("prefect.yaml"), Path("state/prefect/deployments.yaml")
WATCHES = "flows/watch.py:watch"
HOURLY = {"flows/score_windows.py:score_windows": "5 * * * *", WATCHES: "20 * * * *"}  # after the window has ended


def file() -> Path:
    """The file to deploy: prefect.yaml, or one written beside its state if params.yaml has other jobs than it."""
    if not params.FILE.is_file():
        return TEMPLATE
    template, sections = yaml_file.read(TEMPLATE, "it has the deployments"), params.read()
    deployments = list(of_jobs(template["deployments"], sections))
    if deployments == template["deployments"]:
        return TEMPLATE
    WRITTEN.parent.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(template | {"deployments": deployments}, sort_keys=False, allow_unicode=True)
    WRITTEN.write_text(text, encoding="utf-8")
    return WRITTEN


def of_jobs(deployments: list[dict[str, Any]], sections: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The deployments, with each that has the parameter `job` once for each job; a watch only for watched jobs.

    The job that prefect.yaml names keeps the names of its deployments; those of others end with the job's name.
    """
    jobs = {job: params.entry("score", job, Score) for job in sections.get("score", {})}
    for deployment in deployments:
        if "job" not in deployment["parameters"]:
            yield deployment
            continue
        for job, entry in jobs.items():
            if deployment["entrypoint"] != WATCHES or job in sections.get("watch", {}):
                yield _for_job(deployment, job, entry)


def _for_job(deployment: dict[str, Any], job: str, entry: Score) -> dict[str, Any]:
    template_job, name = deployment["parameters"]["job"], deployment["name"]
    copy = deepcopy(deployment)
    if job != template_job:
        copy["parameters"]["job"] = job
        copy["name"] = job if name == template_job else f"{name}-{job}"
        copy["description"] = deployment["description"].replace(f"`{template_job}`", f"`{job}`")
    for schedule in copy.get("schedules", []):
        schedule["cron"] = _cron(schedule["cron"], deployment["entrypoint"], entry)
    return copy


def _cron(daily: str, entrypoint: str, entry: Score) -> str:
    """The cron of a job: its own for its scoring, else the template's, every hour, every day or on Mondays."""
    if entry.cron and entrypoint != WATCHES:
        return entry.cron
    minute, hour, *_ = daily.split()
    return {"hour": HOURLY[entrypoint], "week": f"{minute} {hour} * * 1"}.get(entry.every, daily)
