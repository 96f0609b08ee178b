"""The files of docker/ and .dockerignore, as far as they can be checked without Grafana, Kubernetes and docker."""

import json
import os
import re
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml
from ray.serve.schema import ServeDeploySchema

from pipelines.graph import new_project
from pipelines.serving import haproxy, ray_proxy
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.request_metrics import Metrics
from pipelines.serving.request_store import RequestStore
from tests.support import health_answers
from tests.support.places import ROOT

BOARD: dict[str, Any] = json.loads((ROOT / "docker/grafana.json").read_text(encoding="utf-8"))
KUBERAY: dict[str, Any] = yaml.safe_load((ROOT / "docker/kuberay.yaml").read_text(encoding="utf-8"))
PROMETHEUS = {"type": "prometheus", "uid": "${datasource}"}
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


def exported(place: Path) -> set[str]:
    """The names of the series that the service exports."""
    catalogue = Catalogue()
    catalogue.store = RequestStore(place, 1)
    families = list(Metrics(catalogue).registry.collect())
    catalogue.store.close()
    return {f"{family.name}{suffix}" for family in families for suffix in SUFFIXES[family.type]}


def test_each_metric_of_the_board_is_one_of_the_service_and_each_of_these_is_shown(tmp_path: Path) -> None:
    metrics = exported(tmp_path)
    expressions = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
    queries = [variable["query"] for variable in BOARD["templating"]["list"] if variable["type"] == "query"]
    shown = {name for text in expressions + queries for name in re.findall(r"\bbertline_\w+", text)}
    assert shown - metrics == set()
    counted = {name for name in metrics if not name.endswith(("_sum", "_count"))}  # of a histogram
    assert counted - shown == set()


def test_the_board_takes_any_prometheus_and_its_panels_do_not_overlap() -> None:
    variables = {variable["name"]: variable for variable in BOARD["templating"]["list"]}
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    panels = BOARD["panels"]
    assert all(part["datasource"] == PROMETHEUS for part in [*panels, variables["instance"], variables["model"]])
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(BOARD)))
    assert used == {*variables, "__rate_interval"}
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert places == {(12 * (number % 2), 8 * (number // 2)) for number in range(len(panels))}
    for panel in panels:
        assert {(panel["gridPos"]["w"], panel["gridPos"]["h"])} == {(12, 8)}
        assert all(target["expr"].count("(") == target["expr"].count(")") for target in panel["targets"])


def pods() -> list[dict[str, Any]]:
    """The pods of the head and of the nodes with replicas."""
    cluster = KUBERAY["spec"]["rayClusterConfig"]
    return [group["template"]["spec"] for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]


def test_kuberay_deploys_the_application_of_serve_yaml_with_replicas_that_come_and_go() -> None:
    assert (KUBERAY["apiVersion"], KUBERAY["kind"]) == ("ray.io/v1", "RayService")
    ours = ServeDeploySchema.model_validate(yaml.safe_load(KUBERAY["spec"]["serveConfigV2"]))
    plain = ServeDeploySchema.model_validate(yaml.safe_load((ROOT / "docker/serve.yaml").read_text()))
    (application,), (other,) = ours.applications, plain.applications
    assert (application.import_path, application.name) == (other.import_path, other.name)
    (service,), (fixed,) = application.deployments, other.deployments
    assert service.user_config == fixed.user_config
    assert service.max_queued_requests == fixed.max_queued_requests
    assert service.autoscaling_config["min_replicas"] < service.autoscaling_config["max_replicas"]
    cluster = KUBERAY["spec"]["rayClusterConfig"]
    assert cluster["enableInTreeAutoscaling"] is True
    (workers,) = cluster["workerGroupSpecs"]
    assert workers["minReplicas"] < workers["maxReplicas"]
    assert f"\nray=={cluster['rayVersion']}\n" in (ROOT / "requirements.lock").read_text()


def test_its_pods_have_haproxy_a_key_that_nobody_else_reads_and_probes_without_other_programs() -> None:
    dockerfile = (ROOT / "docker/Dockerfile").read_text()
    settings = ray_proxy.SETTINGS | {haproxy.BINARY: f"/opt/venv/bin/{ray_proxy.COMMAND}"}
    assert "COPY --from=build /opt/venv /opt/venv" in dockerfile
    config = yaml.safe_load(KUBERAY["spec"]["serveConfigV2"])
    assert KUBERAY["spec"]["rayClusterConfig"]["authOptions"] == {"mode": "token", "secretName": "bertline"}
    for pod in pods():
        (container,), (prepared,) = pod["containers"], pod["initContainers"]
        assert {entry["name"]: entry["value"] for entry in container["env"]} == settings
        assert prepared["command"][-1] == config["applications"][0]["args"]["keys"]
        assert prepared["command"][1:3] == ["-m", "600"]
        assert pod["securityContext"]["runAsUser"] == 1000
        assert "--uid 1000 bertline" in dockerfile
        assert "httpGet" in container["readinessProbe"]
        assert container["livenessProbe"]["httpGet"]["port"] in (8265, 52365)
        mounted = {mount["name"] for part in (container, prepared) for mount in part["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}
    assert not re.search(r"(?i)kind: Secret|password:|auth_token: ", (ROOT / "docker/kuberay.yaml").read_text())


# files that the pages have a person write into the checkout
SECRETS = ("keys.txt", "receipts.key", "bert-key.pem", "try-key.pem", "params/shop.key", "bertline/keys.txt")
NEEDED_BY_NO_IMAGE = {"tests", "docs", "benchmarks", "docker", ".ci", "Makefile", "CHANGELOG.md"}
NEEDED_BY_NO_IMAGE |= {".gitignore", ".dockerignore"}


def taken(path: str) -> bool:
    """Whether an image of the checkout has this file: the last pattern that fits it, or a folder above it, decides."""
    places = [f"/{place}" for place in (path, *map(str, Path(path).parents))]
    decided = True
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = "/" + line.removeprefix("!").replace("**/", "*/")
        if not line.startswith("#") and any(fnmatchcase(place, pattern.replace("/*/", "*/")) for place in places):
            decided = line.startswith("!")
    return decided


def test_an_image_takes_the_code_and_no_key_corpus_or_answer_that_lies_beside_it() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    needed = [path for path in listed if path.split("/")[0] not in NEEDED_BY_NO_IMAGE]
    assert len(needed) > 500
    assert [path for path in [*needed, "docker/serve.yaml"] if not taken(path)] == []
    others = ("my/tickets.csv", "desk.db", "signed/a.parquet", "scored-tonight/a.parquet", ".git/config", "state/x")
    others += (".dvc/config.local", ".dvc/cache/x", "flows/__pycache__/a.pyc", "artifacts/x", "docs/using.md", ".env")
    assert [path for path in (*SECRETS, *others) if taken(path)] == []


def test_git_takes_no_file_of_keys(tmp_path: Path) -> None:
    for ignored in ((ROOT / ".gitignore").read_text(encoding="utf-8"), new_project.IGNORED):
        subprocess.run(["git", "init", "-q", tmp_path], check=True)
        (tmp_path / ".gitignore").write_text(ignored, encoding="utf-8")
        command = ["git", "check-ignore", *SECRETS, "params.yaml"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.stdout.split() == list(SECRETS)


def test_the_image_is_healthy_at_another_port_and_with_tls(tmp_path: Path) -> None:
    dockerfile = (ROOT / "docker/Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")
    (check,) = re.findall(r"^HEALTHCHECK .* CMD (\[.*\])$", dockerfile, re.MULTILINE)
    assert "ENV BERTLINE_HEALTH=http://127.0.0.1:8000/health\n" in dockerfile
    for scheme, folder in (("http", None), ("https", tmp_path)):
        with health_answers.answered(certificate_folder=folder) as port:
            for path, status in (("health", 0), ("other", 1)):
                behind = {
                    f"{scheme}_proxy": "http://127.0.0.1:9",
                    "BERTLINE_HEALTH": f"{scheme}://127.0.0.1:{port}/{path}",
                }
                environment = {name: value for name, value in os.environ.items() if name.lower() != "no_proxy"} | behind
                done = subprocess.run(json.loads(check), env=environment, capture_output=True, check=False)
                assert done.returncode == status, (scheme, path)
