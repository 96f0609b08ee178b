"""Deployments for the jobs of params.yaml: those of prefect.yaml as they are, and the same for each other job."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.client.schemas.schedules import CronSchedule

from flows.local import job_deployments
from pipelines.core.errors import UsageError
from tests.support.places import ROOT

JOB = {"model": "m", "source": "in/{window}.parquet", "target": "out/{window}.parquet", "since": "2026-11-01"}


@pytest.fixture(autouse=True)
def template(checkout: Path) -> None:
    shutil.copyfile(ROOT / "prefect.yaml", "prefect.yaml")


def deployed(**sections: Any) -> dict[str, dict[str, Any]]:
    """The deployments by FLOW/NAME that `up` registers."""
    Path("params.yaml").write_text(yaml.safe_dump(sections))
    content = yaml.safe_load(job_deployments.file().read_text())
    return {f"{d['entrypoint'].split(':')[1]}/{d['name']}": d for d in content["deployments"]}


def test_the_quickstarts_own_file_is_used_where_its_jobs_are_all() -> None:
    assert job_deployments.file() == job_deployments.TEMPLATE  # without params.yaml
    deployed(score={"nightly": JOB}, watch={"nightly": {}})
    assert job_deployments.file() == job_deployments.TEMPLATE


def test_each_job_has_its_deployments_at_its_times() -> None:
    jobs = {"nightly": JOB, "hours": {**JOB, "every": "hour"}, "weeks": {**JOB, "every": "week", "cron": "30 6 * * 2"}}
    known = deployed(score=jobs, watch={"nightly": {}, "hours": {}})
    times = {name: [schedule["cron"] for schedule in d.get("schedules", [])] for name, d in known.items()}
    assert {name: cron for name, cron in times.items() if "job" in known[name]["parameters"]} == {
        "score_windows/nightly": ["0 1 * * *"],
        "score_windows/hours": ["5 * * * *"],
        "score_windows/weeks": ["30 6 * * 2"],
        "backfill/missed": [],
        "backfill/missed-hours": [],
        "backfill/missed-weeks": [],
        "watch/drift": ["0 4 * * *"],
        "watch/drift-hours": ["20 * * * *"],
    }
    assert all(CronSchedule(cron=cron) for crons in times.values() for cron in crons)
    assert known["score_windows/hours"]["parameters"] == {"job": "hours"}
    assert known["score_windows/hours"]["description"] == "score the windows of the job `hours` that are due"
    pool = known["score_windows/nightly"]["work_pool"]
    assert known["score_windows/hours"]["work_pool"] == pool
    assert known["retrain/weekly"]["schedules"] == [{"cron": "0 18 * * 0"}]


def test_a_job_that_is_gone_has_none_and_a_wrong_cron_is_refused() -> None:
    known = deployed(score={"mine": JOB})
    assert {"score_windows/mine", "backfill/missed-mine", "retrain/weekly"} <= set(known)
    assert not {"score_windows/nightly", "watch/drift", "watch/drift-mine"} & set(known)
    with pytest.raises(UsageError, match=r"score\.mine\.cron"):
        deployed(score={"mine": {**JOB, "cron": "daily"}})
