"""The deployments of `bertline up`: those of prefect.yaml, with the models, jobs and schedules of params.yaml."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.client.schemas.schedules import CronSchedule

from flows import trigger
from flows.local import deployments, prefect_registration
from pipelines.core.errors import UsageError
from pipelines.graph import checking
from tests.support.places import ROOT

JOB = {"model": "m", "source": "in/{window}.parquet", "target": "out/{window}.parquet", "since": "2026-11-01"}


ENTRIES = {
    "prepare": {"rows": {"corpus": "custom", "source": "in"}},
    "encode": {"rows": {"task": "rows", "vocab": "e", "max_length": 8}},
    "finetune": {"m": {"data": "rows", "encoder": "e"}},
    "evaluate": {"m": {"task": "rows", "split": "dev"}},
    "promote": {"m": {"run": "m"}},
}


@pytest.fixture(autouse=True)
def folder(checkout: Path) -> None:
    """A project of one's own: without prefect.yaml, the one of this checkout is the template."""


def deployed(**sections: Any) -> dict[str, dict[str, Any]]:
    """The deployments by FLOW/NAME that `up` registers."""
    Path("params.yaml").write_text(yaml.safe_dump(sections))
    content = yaml.safe_load(deployments.file().read_text())
    return dict(zip(deployments.names(), content["deployments"], strict=True))


def test_the_quickstarts_entries_give_prefects_file() -> None:
    template = yaml.safe_load((ROOT / "prefect.yaml").read_text())
    assert deployments.file() == ROOT / "prefect.yaml", "without params.yaml"
    shutil.copyfile(ROOT / "params.yaml", "params.yaml")
    written = yaml.safe_load(deployments.file().read_text())
    for deployment in written["deployments"]:
        assert deployment.pop("tags") == [deployments.TAG]
    assert written == template
    assert "score-windows/nightly" in deployments.names()


def test_each_job_has_its_deployments_at_its_times() -> None:
    jobs = {"nightly": JOB, "hours": {**JOB, "every": "hour"}, "weeks": {**JOB, "every": "week", "cron": "30 6 * * 2"}}
    known = deployed(score=jobs, watch={"nightly": {}, "hours": {}})
    times = {name: [schedule["cron"] for schedule in d.get("schedules", [])] for name, d in known.items()}
    assert {name: cron for name, cron in times.items() if "job" in known[name]["parameters"]} == {
        "score-windows/nightly": ["0 1 * * *"],
        "score-windows/hours": ["5 * * * *"],
        "score-windows/weeks": ["30 6 * * 2"],
        "backfill/missed": [],
        "backfill/missed-hours": [],
        "backfill/missed-weeks": [],
        "watch/drift": ["0 4 * * *"],
        "watch/drift-hours": ["20 * * * *"],
    }
    assert all(CronSchedule(cron=cron) for crons in times.values() for cron in crons)
    assert known["score-windows/hours"]["parameters"] == {"job": "hours"}
    assert known["score-windows/hours"]["description"] == "score the windows of the job `hours` that are due"
    pool = known["score-windows/nightly"]["work_pool"]
    assert known["score-windows/hours"]["work_pool"] == pool
    assert known["retrain/weekly"]["schedules"] == [{"cron": "0 18 * * 0"}]


@pytest.mark.parametrize(
    ("scored", "watched"),
    [
        ("30 6 * * 2", "30 7 * * 2"),
        ("30 06 * * *", "30 7 * * *"),
        ("*/15 6 * * *", "*/15 7 * * *"),
        ("0,30 6 * * *", "0,30 7 * * *"),
        ("0 22 * * *", "0 23 * * *"),
        ("0 23 * * *", "0 4 * * *"),
        ("0 */6 * * *", None),
    ],
)
def test_a_watch_looks_after_the_scoring(scored: str, watched: str | None) -> None:
    known = deployed(score={"nightly": {**JOB, "cron": scored}}, watch={"nightly": {}})
    assert known["score-windows/nightly"]["schedules"] == [{"cron": scored}]
    assert known["watch/drift"]["schedules"] == [{"cron": watched or "0 4 * * *"}]


def test_a_run_is_cancelled_only_where_the_next_one_does_its_work_too() -> None:
    jobs = {policy: {**JOB, "catch_up": policy} for policy in ("skip", "latest", "all")}
    at = {"flow": "score", "model": "m", "source": "a", "target": "b"}
    schedule = {
        "mails": at | {"cron": "*/30 * * * *"},
        "by-hand": at,
        "m-daily": {"flow": "retrain", "cron": "0 3 * * *"},
    }
    known = deployed(**ENTRIES, score=jobs, watch={"skip": {}}, schedule=schedule)
    cancelled = {"limit": 1, "collision_strategy": "CANCEL_NEW"}
    assert {name for name, one in known.items() if one["concurrency_limit"] == cancelled} == {
        "score-windows/all", "watch/drift-skip", "new-data/sources", "score/mails",
    }  # fmt: skip
    waiting = {"limit": 1, "collision_strategy": "ENQUEUE"}
    assert known["score-windows/skip"]["concurrency_limit"] == waiting, "a window that only this run would score"
    assert known["score-windows/latest"]["concurrency_limit"] == waiting
    assert known["score/by-hand"]["concurrency_limit"] == known["retrain/m-daily"]["concurrency_limit"] == 1


def test_a_job_that_is_gone_has_none_and_a_wrong_cron_is_refused() -> None:
    known = deployed(score={"mine": JOB})
    assert {"score-windows/mine", "backfill/missed-mine", "retrain/weekly"} <= set(known)
    assert not {"score-windows/nightly", "watch/drift", "watch/drift-mine"} & set(known)
    with pytest.raises(UsageError, match=r"score\.mine\.cron"):
        deployed(score={"mine": {**JOB, "cron": "daily"}})


def test_a_template_of_ones_own_may_say_little() -> None:
    """Schedules without a cron stay, and keys that are empty count as missing."""
    ones = [
        {"name": "plain", "entrypoint": "mine.py:mine"},
        {"name": "empty", "entrypoint": "mine.py:mine", "parameters": None, "schedules": None, "tags": None},
        {
            "name": "nightly",
            "entrypoint": "flows/backfill.py:backfill",
            "parameters": {"job": "nightly"},
            "schedules": [{"interval": 3600}, {"cron": "@daily"}, {"cron": "0 1 * * *"}],
        },
        {"name": "read", "entrypoint": "mine.py:mine", "parameters": {"name": "other", "source": 3}},
    ]
    Path("prefect.yaml").write_text(yaml.safe_dump({"deployments": ones}))
    jobs = {name: {**JOB, "every": every} for name, every in (("nightly", "hour"), ("weeks", "week"))}
    known = deployed(**ENTRIES, score=jobs)
    assert set(known) == {"mine/plain", "mine/empty", "backfill/nightly", "backfill/weeks", "mine/read"}
    assert known["backfill/nightly"]["schedules"] == [{"interval": 3600}, {"cron": "@daily"}, {"cron": "0 1 * * *"}]
    assert known["backfill/weeks"]["schedules"] == [{"interval": 3600}, {"cron": "@daily"}, {"cron": "0 1 * * 1"}]
    assert known["mine/empty"] == {"name": "empty", "entrypoint": "mine.py:mine", "tags": [deployments.TAG]}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: x", "no `deployments:`"),
        ("deployments:", "no `deployments:`"),
        ("deployments: [x]", r"deployments\.0: 'x' is no deployment"),
        ("deployments: [{name: x}]", r"deployments\.0: no `entrypoint:`"),
        ("deployments: [{entrypoint: 'a.py:b'}]", r"deployments\.0: no `name:`"),
        ("deployments: [{name: x, entrypoint: 3}]", r"deployments\.0\.entrypoint: 3; it must be a text"),
        ("deployments: [{name: x, entrypoint: 'a:b', parameters: [job]}]", r"parameters: .* must be a mapping"),
        ("deployments: [{name: x, entrypoint: 'a:b', schedules: [daily]}]", r"schedules: 'daily'; a schedule is"),
    ],
)
def test_a_template_without_its_form_is_refused(text: str, problem: str) -> None:
    Path("prefect.yaml").write_text(text)
    with pytest.raises(UsageError, match=f"prefect.yaml: .*{problem}"):
        deployments.file()
    with pytest.raises(UsageError, match=problem):
        deployed(**ENTRIES)


def test_a_command_of_prefect_fails_with_the_reason_that_pydantic_gives() -> None:
    error = "1 validation error\n  Invalid timezone\n    For further information visit https://errors.pydantic.dev\n\n"
    done = subprocess.CompletedProcess([], 1, "", error)
    assert prefect_registration._reason(done) == "Invalid timezone"


def test_the_models_are_those_of_params() -> None:
    known = deployed()
    assert {name for name in known if "name" in known[name]["parameters"]} == set(), "no model, nothing to score with"
    assert "retrain/weekly" in known
    known = deployed(**ENTRIES)
    assert known["promote/challenger"]["parameters"] == {"name": "m"}
    assert known["score/file"]["parameters"] == {
        "name": "m",
        "source": "artifacts/rows/rows/dev.parquet",
        "target": "state/scored/file.parquet",
    }
    assert known["score-folder/folder"]["parameters"]["source"] == "incoming"


def test_each_entry_of_schedule_is_a_deployment() -> None:
    schedule = {
        "weekly": {"flow": "retrain"},
        "m-daily": {"flow": "retrain", "model": "m", "cron": "0 3 * * *", "timezone": "Asia/Tokyo"},
        "mails": {"flow": "score-folder", "model": "m", "source": "mails", "target": "scored", "cron": "*/10 * * * *"},
        "look": {"flow": "new-data", "cron": "0 * * * *"},
    }
    known = deployed(**ENTRIES, schedule=schedule)
    assert known["retrain/weekly"]["schedules"] == [], "no cron: only by bertline trigger"
    assert known["retrain/weekly"]["triggers"]
    assert known["retrain/weekly"]["parameters"] == {}
    daily = known["retrain/m-daily"]
    assert (daily["parameters"], "triggers" in daily) == ({"names": ["m"]}, False)
    assert [CronSchedule(**times) for times in daily["schedules"]] == [
        CronSchedule(cron="0 3 * * *", timezone="Asia/Tokyo")
    ]
    assert daily["work_pool"] == known["retrain/weekly"]["work_pool"]
    assert known["score-folder/mails"]["parameters"] == {"name": "m", "source": "mails", "target": "scored"}
    assert {"new-data/look", "new-data/sources", "score-folder/folder"} < set(known)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"flow": "retrian"}, r"schedule\.s\.flow"),
        ({"flow": "score", "model": "m", "source": "a"}, "score needs target too"),
        ({"flow": "retrain", "source": "a"}, "retrain does not take source"),
        ({"flow": "retrain", "cron": "daily"}, r"schedule\.s\.cron"),
        ({"flow": "retrain", "cron": "0 25 * * *"}, r"schedule\.s\.cron: '0 25 \* \* \*' is no time"),
        ({"flow": "retrain", "timezone": "Asia/Tokio"}, "no time zone 'Asia/Tokio'"),
        ({"flow": "retrain", "cron": "0 0 30 2 *"}, r"schedule\.s\.cron: '0 0 30 2 \*' is no time"),
        ({"flow": "retrain", "timezone": "../etc"}, "no time zone"),
        ({"flow": "retrain", "timezone": "posix/Asia/Tokyo"}, "no time zone 'posix/Asia/Tokyo'"),
    ],
)
def test_a_wrong_schedule_is_refused(entry: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        deployed(**ENTRIES, schedule={"s": entry})


def test_a_schedule_names_a_model_of_promote() -> None:
    Path("params.yaml").write_text(yaml.safe_dump({**ENTRIES, "schedule": {"s": {"flow": "retrain", "model": "n"}}}))
    with pytest.raises(UsageError, match=r"schedule\.s\.model: no promote entry 'n'.*there are: m"):
        checking.check()


def test_the_value_of_a_param_has_the_type_that_its_flow_takes() -> None:
    text = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    properties = {
        "max_bad": {"type": "string"},
        "prefix": text,
        "workers": {"type": "integer"},
        "names": {"type": "array"},
    }
    for param, value in (
        ("max_bad=0", "0"),
        ('max_bad="0"', "0"),
        ("prefix=1", "1"),
        ("prefix=null", None),
        ("workers=4", 4),
        ('names=["a"]', ["a"]),
        ("max_bad=rows.parquet", "rows.parquet"),
    ):
        name = param.partition("=")[0]
        assert trigger._value(param, properties) == (name, value)
    with pytest.raises(UsageError, match=r"--param worker=1: no param 'worker' .did you mean 'workers'.."):
        trigger._value("worker=1", properties)
    with pytest.raises(UsageError, match="no param 'x'; there are: none"):
        trigger._value("x=1", {})
