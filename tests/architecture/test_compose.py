"""docker/compose.yaml, as far as it can be checked without docker: its names, its options, its environment."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from urllib.parse import urlsplit

import mlflow.environment_variables
import prefect.cli
import prefect.settings
import pytest
import typer
import yaml
from dvc.repo import Repo
from mlflow.cli import cli as mlflow_cli
from sqlalchemy.engine import make_url

from flows import cli, failure_hook
from flows.local import deployments, prefect_registration, prefect_server, prefect_settings, work_queues
from flows.local import servers as local_servers
from tests.support import servers
from tests.support.places import ROOT

FILE = ROOT / "docker" / "compose.yaml"
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text())["services"]
# what the images, boto3 and this project read
KNOWN = {"POSTGRES_USER", "POSTGRES_PASSWORD", "MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD", "AWS_ENDPOINT_URL_S3"}
KNOWN |= {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "PREFECT_HOME", "PREFECT_API_URL"}
KNOWN |= {prefect_server.HOSTS, failure_hook.ADDRESS, "PREFECT_API_AUTH_STRING", "PREFECT_SERVER_API_AUTH_STRING"}


def command(service: dict[str, Any]) -> list[str]:
    """The command that a service of our own image runs."""
    return [*service.get("entrypoint", ["bertline"]), *service.get("command", [])]


def test_volumes_of_our_image_belong_to_its_user() -> None:
    """A new volume has the owner of the folder that the image has there, and is root's if it has none."""
    named = yaml.safe_load(FILE.read_text())["volumes"]
    made = re.search(r"install --directory --owner bertline (.*)", DOCKERFILE)
    assert made
    mounts = [
        mount.split(":")
        for service in SERVICES.values()
        if service["image"] == IMAGE
        for mount in service.get("volumes", [])
    ]
    folders = [mount[1] for mount in mounts if mount[0] in named]
    assert folders
    assert {*folders} <= {*made[1].split()}


(IMAGE,) = (service["image"] for service in SERVICES.values() if "build" in service)  # one service builds for all
OURS = [command(service) for service in SERVICES.values() if service["image"] == IMAGE]


def test_files_and_services_that_a_service_names_exist() -> None:
    volumes = yaml.safe_load(FILE.read_text())["volumes"]
    used = set()
    for name, service in SERVICES.items():
        depends = service.get("depends_on", {})
        for other in depends:
            assert other in SERVICES, (name, other)
            if isinstance(depends, dict) and depends[other]["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[other], (name, other)
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (FILE.parent / source).exists() if source.startswith(".") else source in volumes, volume
            used.add(source)
    assert used >= set(volumes)


def test_our_services_share_the_image_that_make_image_builds() -> None:
    assert [name for name, service in SERVICES.items() if service["image"] == IMAGE] == [
        "bucket",
        "prefect",
        "mlflow",
        "deployments",
        "worker",
        "service",
    ]
    assert {service["image"].split(":")[0] for service in SERVICES.values()} == {"postgres", "minio/minio", "bertline"}
    assert f"--tag {IMAGE.removesuffix('cpu')}$(or $(TORCH),cpu)" in (ROOT / "Makefile").read_text()


def test_the_image_checks_the_service_alone() -> None:
    """Of another service of the image, its check would find nothing at the port 8000."""
    ours = {name: service.get("healthcheck") for name, service in SERVICES.items() if service["image"] == IMAGE}
    assert [name for name, check in ours.items() if check is None] == ["service"]
    assert {name for name, check in ours.items() if check == {"disable": True}} == {"bucket", "deployments", "worker"}
    for name, health in (("prefect", "4200/api/health"), ("mlflow", "5000/health")):
        assert f"http://127.0.0.1:{health}" in ours[name]["test"][-1]
    waits = [SERVICES[name]["depends_on"]["mlflow"]["condition"] for name in ("worker", "service")]
    assert waits == ["service_healthy"] * 2


def test_the_database_is_ready_when_others_reach_it() -> None:
    """At its socket alone, a temporary server answers while the image makes the databases."""
    assert SERVICES["database"]["healthcheck"]["test"] == ["CMD", "pg_isready", "-h", "127.0.0.1", "-U", "bertline"]


def test_an_address_names_a_service_and_its_port() -> None:
    variables = [pair for service in SERVICES.values() for pair in service.get("environment", {}).items()]
    values = [str(value) for name, value in variables if not name.endswith("ORIGINS")]  # those are a browser's
    hosts = [urlsplit(value) for value in values if "://" in value]
    assert len(hosts) >= 6
    ports = {"objects": 9000, "prefect": 4200, "mlflow": 5000, "database": None}
    for url in hosts:
        assert (url.hostname, url.port) in ports.items(), url
        assert url.hostname in SERVICES


def test_each_variable_is_read_by_something() -> None:
    prefects = prefect.settings.Settings().to_environment_variables()
    options = {option.envvar for option in mlflow_cli.commands["server"].params}
    checked = 0
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            mlflows = name in options or hasattr(mlflow.environment_variables, name)
            assert name in KNOWN or name in prefects or mlflows, name
            checked += 1
            if "postgresql" in str(value):
                make_url(value).get_dialect().import_dbapi()  # the driver is installed
    assert checked >= 15


def test_a_published_address_passes_the_host_check_and_prefect_has_its_key() -> None:
    (hosts,) = (word for word in SERVICES["mlflow"]["entrypoint"] if word.startswith("mlflow,"))
    assert {"mlflow:5000", "127.0.0.1:5000", "localhost:5000"} <= set(hosts.split(","))
    server = SERVICES["prefect"]["environment"]
    assert {"prefect", "127.0.0.1", "localhost"} == set(server[prefect_server.HOSTS].split(","))
    assert "*" not in server["PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS"]
    key = server["PREFECT_SERVER_API_AUTH_STRING"]
    assert "${BERTLINE_PASSWORD}" in key
    clients = [
        service["environment"] for service in SERVICES.values() if "PREFECT_API_URL" in service.get("environment", {})
    ]
    assert len(clients) == 2
    assert all(variables["PREFECT_API_AUTH_STRING"] == key for variables in clients)
    module, _, name = SERVICES["prefect"]["entrypoint"][4].partition(":")
    assert (module, callable(getattr(prefect_server, name))) == (prefect_server.__name__, True)


def test_a_lease_is_kept_as_bertline_up_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = SERVICES["prefect"]["environment"]
    monkeypatch.delenv("PREFECT_CLIENT_MAX_RETRIES", raising=False)
    prefect_settings.use_local_state()
    name = "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE"
    assert environment[name] == local_servers.environment()[name] == local_servers.LEASES
    assert any(volume.endswith(f":{environment['PREFECT_HOME']}") for volume in SERVICES["prefect"]["volumes"])
    retries = SERVICES["worker"]["environment"]["PREFECT_CLIENT_MAX_RETRIES"]
    assert str(retries) == os.environ["PREFECT_CLIENT_MAX_RETRIES"]


def test_ended_runs_are_removed_as_bertline_up_has_them_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED"
    value = SERVICES["prefect"]["environment"][name]
    assert value == local_servers.environment()[name]
    monkeypatch.setenv(name, value)
    vacuum = prefect.settings.Settings().server.services.db_vacuum
    assert vacuum.enabled_vacuum_types == {"events", "flow_runs", "orphans"}
    assert vacuum.retention_period.days == 90, "docs/operating.md names it"


@pytest.mark.parametrize("words", [words for words in OURS if words[0] in ("bertline", "mlflow")], ids=" ".join)
def test_options_of_bertline_and_mlflow_exist(words: list[str]) -> None:
    group: Any = typer.main.get_command(cli.cli) if words[0] == "bertline" else mlflow_cli
    known = {option for parameter in group.commands[words[1]].params for option in parameter.opts}
    options = {word for word in words if word.startswith("--")}
    assert options
    assert options <= known


def test_options_of_the_worker_exist(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (words,) = (words for words in OURS if words[0] == "prefect")
    monkeypatch.setattr(sys, "argv", [*words[:3], "--help"])
    with pytest.raises(SystemExit) as ended:
        prefect.cli.app()
    assert not ended.value.code
    help_text = capsys.readouterr().out
    assert all(word in help_text for word in words if word.startswith("--"))


def test_deployments_are_registered_as_bertline_up_registers_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service has the urgent queue too, and deployments go with their entries."""
    assert SERVICES["deployments"]["entrypoint"] == ["python", "-m", prefect_registration.__name__]
    calls = list[Any]()
    monkeypatch.setattr(subprocess, "run", lambda line, **_: calls.append(line[4]) or CompletedProcess(line, 0))
    monkeypatch.setattr(work_queues, "make_urgent", lambda *server: calls.append(server))
    monkeypatch.setattr(deployments, "remove_others", lambda *server: calls.append(server))
    environment = SERVICES["deployments"]["environment"]
    prefect_registration.register(Path("d.yaml"), environment)
    server = (environment["PREFECT_API_URL"], environment["PREFECT_API_AUTH_STRING"])
    assert calls == ["work-pool", server, "deploy", (Path("d.yaml"), *server)]


@pytest.mark.slow
def test_the_bucket_is_made_once(checkout: Path) -> None:
    place = SERVICES["bucket"]
    with servers.running(servers.S3(checkout / "s3")) as s3:
        s3.client().delete_bucket(Bucket=servers.BUCKET)
        environment = os.environ | servers.KEYS | {"AWS_ENDPOINT_URL_S3": s3.address}
        assert environment.keys() >= place["environment"].keys() - {"MLFLOW_S3_ENDPOINT_URL"}
        for _ in range(2):
            subprocess.run(place["entrypoint"], env=environment, check=True)
        (bucket,) = s3.client().list_buckets()["Buckets"]
    assert f"s3://{bucket['Name']}" in SERVICES["mlflow"]["entrypoint"]


def test_services_restart_and_the_checkout_is_mounted() -> None:
    jobs = {"bucket", "deployments"}
    assert {name for name, service in SERVICES.items() if service.get("restart") != "unless-stopped"} == jobs
    folder = next(line.split()[1] for line in DOCKERFILE.splitlines() if line.startswith("WORKDIR"))
    for name in ("worker", "deployments"):  # the one runs the flows of the checkout that the other has registered
        assert f"..:{folder}" in SERVICES[name]["volumes"]
    assert f"safe.directory {folder}" in DOCKERFILE
    assert " git " in DOCKERFILE


@pytest.mark.slow
def test_dvc_pushes_to_the_object_store_and_pulls_back(checkout: Path) -> None:
    Repo.init(no_scm=True).close()
    _, *remote = (ROOT / ".dvc/config").read_text().partition("['remote")
    with Path(".dvc/config").open("a") as config:
        config.write("".join(remote))
    rows = Path("rows.txt")
    rows.write_text("rows")
    with servers.s3(checkout / "s3") as s3:
        values = servers.KEYS | {"AWS_ENDPOINT_URL_S3": s3.address}
        secrets = {name: values[name] for name in SERVICES["worker"]["environment"] if name in values}
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | secrets
        for command in ("add rows.txt", "push --remote compose", "pull --remote compose"):
            if command.startswith("pull"):
                rows.unlink()
                shutil.rmtree(".dvc/cache")
            subprocess.run([sys.executable, "-m", "dvc", *command.split()], env=environment, check=True)
        listing = s3.client().list_objects_v2(Bucket=servers.BUCKET, Prefix="dvc/")
    assert rows.read_text() == "rows"
    assert listing["KeyCount"] == 1
