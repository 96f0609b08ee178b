"""What README and the deployment files say is so."""

import re
import subprocess
import sys
from pathlib import Path

import yaml
from prefect import Flow
from prefect.client.schemas.schedules import CronSchedule
from ray.serve.schema import ServeDeploySchema

from docs import generate
from tests.conftest import ROOT


def test_readmes_tables_are_generated() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert generate.readme(text) == text, "run python docs/generate.py"


def test_readmes_commands_are_there() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = set(re.findall(r"(?:`|^)make (\w+)", text, re.MULTILINE))
    makefile = (ROOT / "Makefile").read_text()
    assert {"run", "test", "up", "down"} <= targets
    assert all(f"\n{target}:" in makefile for target in targets)
    told = subprocess.run(
        [sys.executable, "-m", "flows.cli", "--help"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    verbs = set(re.findall(r"`bertline (\w+)", text))
    assert {"use", "retrain", "promote", "serve", "rollback"} <= verbs
    assert all(re.search(rf"\b{verb}\b", told.stdout) for verb in verbs)


def test_readmes_links_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert links
    assert all((ROOT / link).exists() for link in links)


def test_prefects_deployments_name_real_flows() -> None:
    deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    assert {d["entrypoint"].split(":")[1] for d in deployments} == {"retrain", "promote", "score"}
    for deployment in deployments:
        path, name = deployment["entrypoint"].split(":")
        module = __import__(path.removesuffix(".py").replace("/", "."), fromlist=[name])
        flow = getattr(module, name)
        assert isinstance(flow, Flow)
        assert set(deployment.get("parameters", {})) <= set(flow.parameters.properties)
        for schedule in deployment.get("schedules", []):
            CronSchedule(cron=schedule["cron"])


def test_serves_file_is_one_that_ray_takes() -> None:
    config = ServeDeploySchema.model_validate(yaml.safe_load((ROOT / "docker/serve.yaml").read_text()))
    path, name = config.applications[0].import_path.split(":")
    assert Path(ROOT / path.replace(".", "/")).with_suffix(".py").exists()
    assert name == "app"


def test_no_committed_file_holds_a_package_index() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    assert "\ntorch==2.13.0\n" in lock
    assert "nvidia" not in lock
