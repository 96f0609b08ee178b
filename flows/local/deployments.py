"""The deployments that `bertline up` registers: those of prefect.yaml, and those of entries of params.yaml.

prefect.yaml, of the project or else of this installation, is the template: `score` has three deployments for each job
(score, backfill, watch), `schedule` one for each entry, and what names a model that params.yaml lacks takes its first.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from flows.local import prefect_api
from pipelines.core import params, paths, yaml_file
from pipelines.core.errors import InputError, UsageError, one_line, shown
from pipelines.entries.evaluate import Evaluate
from pipelines.entries.promote import Promote
from pipelines.entries.schedule import Schedule
from pipelines.entries.score import Score
from pipelines.graph import import_closure

TEMPLATE, WRITTEN = Path("prefect.yaml"), Path("state/prefect/deployments.yaml")
TAG = "bertline up"  # of what it registers; what has this tag, and no entry any more, it removes
NEEDED = ("name", "entrypoint")  # by every deployment of prefect.yaml
FORMS = {"name": str, "entrypoint": str, "description": str, "parameters": dict, "schedules": list, "tags": list}
WORDS = {str: "text", dict: "mapping", list: "list"}
HOURLY = {"score-windows": "5 * * * *", "watch": "20 * * * *"}  # after the window has ended

Deployment = dict[str, Any]
Sections = Mapping[str, Mapping[str, Any]]


def file() -> Path:
    """Write the file for `prefect deploy`, and return its path; without params.yaml, the template is that file.

    Raises UsageError if the template or an entry is malformed, or a cron of an entry has no meaning.
    """
    template_file = TEMPLATE if TEMPLATE.is_file() else import_closure.ROOT / TEMPLATE
    template = yaml_file.read(template_file, "it has the deployments")
    in_template = _checked(template.get("deployments"), template_file)
    if not params.FILE.is_file():
        return template_file
    deployments = [one | {"tags": [*one.get("tags", []), TAG]} for one in wanted(in_template, params.read())]
    WRITTEN.parent.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(template | {"deployments": deployments}, sort_keys=False, allow_unicode=True)
    WRITTEN.write_text(text, encoding="utf-8")
    return WRITTEN


def _checked(listed: Any, file: Path) -> list[Deployment]:
    """The deployments of the template, without keys that are empty. Raises UsageError for one without its form."""
    if not isinstance(listed, list):
        raise UsageError(f"{file}: no `deployments:` with a list of deployments")
    for number, one in enumerate(listed):
        where = f"{file}: deployments.{number}"
        if not isinstance(one, dict):
            raise UsageError(f"{where}: {shown(one)} is no deployment; it must have `name:` and `entrypoint:`")
        for key, form in FORMS.items():
            if key in NEEDED and not one.get(key):
                raise UsageError(f"{where}: no `{key}:`; every deployment has a name and the entrypoint of a flow")
            if one.get(key) is not None and not isinstance(one[key], form):
                raise UsageError(f"{where}.{key}: {shown(one[key])}; it must be a {WORDS[form]}")
        if wrong := [schedule for schedule in one.get("schedules") or () if not isinstance(schedule, dict)]:
            raise UsageError(f"{where}.schedules: {shown(wrong[0])}; a schedule is a mapping, such as `cron: TIMES`")
    return [{key: value for key, value in one.items() if value is not None or key not in FORMS} for one in listed]


def wanted(template: list[Deployment], sections: Sections) -> Iterator[Deployment]:
    """The template's deployments as the entries of params.yaml have them, then those of `schedule`."""
    entries = {name: params.entry("schedule", name, Schedule) for name in sections.get("schedule", {})}
    scheduled = [_scheduled(name, entry, template) for name, entry in entries.items()]
    replaced = {(one["entrypoint"], one["name"]) for one in scheduled}
    for deployment in _of_models(_of_jobs(template, sections), sections):
        if (deployment["entrypoint"], deployment["name"]) not in replaced:
            yield deployment
    yield from scheduled


def names() -> list[str]:
    """The deployments that the last `bertline up` registered, as FLOW/NAME."""
    content = yaml_file.read(WRITTEN, "") if WRITTEN.is_file() else {"deployments": []}
    return [f"{_flow(one)}/{one['name']}" for one in content["deployments"]]


def remove_others(deployed: Path, api: str, key: str) -> None:
    """Remove from Prefect's server what an earlier `up` registered and `deployed` does not have.

    Raises InputError if the server refuses.
    """
    known = {(one["entrypoint"], one["name"]) for one in yaml_file.read(deployed, "")["deployments"]}
    try:
        ours = {"deployments": {"tags": {"all_": [TAG]}}}
        for one in prefect_api.send("POST", f"{api}/deployments/filter", ours, key):
            if (one["entrypoint"], one["name"]) not in known:
                prefect_api.send("DELETE", f"{api}/deployments/{one['id']}", None, key)
    except OSError as error:
        raise InputError(f"{api}: deployments without an entry cannot be removed ({one_line(error)})") from None


def _of_jobs(template: Iterable[Deployment], sections: Sections) -> Iterator[Deployment]:
    """The deployments, with each that has the parameter `job` once for each job; a watch only for watched jobs.

    The job that prefect.yaml names keeps the names of its deployments; those of others end with the job's name.
    """
    jobs = {job: params.entry("score", job, Score) for job in sections.get("score", {})}
    for deployment in template:
        if "job" not in deployment.get("parameters", {}):
            yield deployment
            continue
        for job, entry in jobs.items():
            if _flow(deployment) != "watch" or job in sections.get("watch", {}):
                yield _for_job(deployment, job, entry)


def _for_job(deployment: Deployment, job: str, entry: Score) -> Deployment:
    template_job, name = deployment["parameters"]["job"], deployment["name"]
    copy = deepcopy(deployment)
    if job != template_job:
        copy["parameters"]["job"] = job
        copy["name"] = job if name == template_job else f"{name}-{job}"
        if "description" in copy:
            copy["description"] = copy["description"].replace(f"`{template_job}`", f"`{job}`")
    if _flow(deployment) == "score-windows" and entry.catch_up != "all":  # no later run scores what this one would
        copy = _with_strategy(copy, "ENQUEUE")
    for schedule in copy.get("schedules", []):
        if isinstance(schedule.get("cron"), str):  # an interval or an rrule stays as it is
            schedule["cron"] = _cron(schedule["cron"], _flow(deployment), job, entry)
    return copy


def _with_strategy(deployment: Deployment, strategy: str) -> Deployment:
    """The deployment, if it has a limit, with what Prefect does to a run that begins while others take the limit."""
    limit = deployment.get("concurrency_limit")
    if isinstance(limit, int):
        limit = {"limit": limit}
    if not isinstance(limit, dict):
        return deployment
    return deployment | {"concurrency_limit": {**limit, "collision_strategy": strategy}}


def _cron(daily: str, flow: str, job: str, entry: Score) -> str:
    """The cron of a job: its own for its scoring, else the template's, every hour, every day or on Mondays.

    The watch follows an hour after a cron with one hour of the day: before the scoring it would look a window behind.
    """
    if entry.cron:
        scoring = _meaningful(entry.cron, f"score.{job}")
        if flow != "watch":
            return scoring
        if hit := re.fullmatch(r"(\S+) (0?\d|1\d|2[012]) (\S+ \S+ \S+)", " ".join(scoring.split())):
            return f"{hit[1]} {int(hit[2]) + 1} {hit[3]}"
    weekly = re.sub(r"^(\S+ \S+)( \S+){3}$", r"\1 * * 1", " ".join(daily.split()))  # a word such as @daily stays
    return {"hour": HOURLY.get(flow, daily), "week": weekly}.get(entry.every, daily)


def _of_models(deployments: Iterable[Deployment], sections: Sections) -> Iterator[Deployment]:
    """The deployments; one of a model that `promote` lacks is of its first one, or left out if there is none."""
    models = sections.get("promote", {})
    for deployment in deployments:
        if deployment.get("parameters", {}).get("name", "") in ("", *models):
            yield deployment
        elif models:
            copy, name = deepcopy(deployment), next(iter(models))
            copy["parameters"]["name"] = name
            if Path(str(deployment["parameters"].get("source", ""))).is_relative_to(paths.rows("")):
                copy["parameters"]["source"] = str(_scored_rows(name))
            yield copy


def _scored_rows(name: str) -> Path:
    """The rows that the model of a promote entry is scored on."""
    scored = params.entry("evaluate", params.entry("promote", name, Promote).run, Evaluate)
    return paths.rows(scored.task) / f"{scored.split}.parquet"


def _scheduled(name: str, entry: Schedule, template: list[Deployment]) -> Deployment:
    """The deployment of an entry of `schedule`: in the place of the template's of that name, or after its first."""
    same_flow = [one for one in template if _flow(one) == entry.flow]
    if not same_flow:
        raise UsageError(
            f"{TEMPLATE}: no deployment of the flow {entry.flow}, which schedule.{name} needs as a template"
        )
    before = next((one for one in same_flow if one["name"] == name), None)
    copy = deepcopy(before or same_flow[0])
    if not before:  # an event starts the template's alone
        copy.pop("triggers", None)
        copy["name"], copy["description"] = name, f"of schedule.{name} in params.yaml"
    if entry.flow == "retrain":
        copy["parameters"] = {"names": [entry.model]} if entry.model else {}
    else:
        values = {"name": entry.model, **entry.model_dump(include={"source", "target", "prefix"})}
        copy["parameters"] = {key: value for key, value in values.items() if value}
    cron = {"cron": _meaningful(entry.cron, f"schedule.{name}"), "timezone": entry.timezone}
    copy["schedules"] = [cron] if entry.cron else []
    # each run scores the whole file: more runs than one after another can do would wait for ever
    return _with_strategy(copy, "CANCEL_NEW") if entry.flow == "score" and entry.cron else copy


def _flow(deployment: Deployment) -> str:
    """The name of a deployment's flow, such as score-folder for flows.score_folder.score_folder."""
    return re.split("[.:]", deployment["entrypoint"])[-1].replace("_", "-")


def _meaningful(cron: str, where: str) -> str:
    """The cron, if Prefect can tell its times. Raises UsageError if not."""
    if not cron:
        return cron
    from prefect.server.schemas.schedules import CronSchedule

    try:
        asyncio.run(CronSchedule(cron=cron).get_dates(1))  # also a day that never comes, such as 30 February
    except ValueError:
        raise UsageError(
            f"{params.FILE}: {where}.cron: {cron!r} is no time; write minute, hour, day, month and weekday"
        ) from None
    return cron
