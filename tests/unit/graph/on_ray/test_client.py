"""What a stage asks of a Ray cluster, and what the executor says when it cannot have it."""

import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from dvc.repo import Repo

from pipelines.core.errors import InputError
from pipelines.core.resources import Resources
from pipelines.graph import executor
from pipelines.graph.forkserver import Command
from pipelines.graph.local_resources import Limits
from pipelines.graph.on_ray import client
from pipelines.graph.on_ray.client import ResourceRequest, lacking
from tests.support.places import ROOT

SMALL, LARGE = {"CPU": 2.0, "memory": 8e9}, {"CPU": 16.0, "memory": 64e9}
LENDS = {"CPU": 4.0, "memory": 16e9, "GPU": 1.0}


def request(**resources: Any) -> ResourceRequest:
    return ResourceRequest.of(Resources(**resources))


def test_a_stage_asks_for_what_resources_say() -> None:
    assert request(threads=2, gpus=0.5, memory_gb=1.5) == ResourceRequest(2, 0.5, 1_500_000_000, False)
    # its workers ask for themselves; if it held what they need, stages could wait for each other for ever
    assert request(threads=2, gpus=1, memory_gb=8, workers=4) == ResourceRequest(0, 0, 0, True)
    assert request(workers=(1, 2)).joins
    assert request().on([SMALL, LARGE])["CPU"] == 16  # all of the largest


def test_resources_that_no_node_has_are_named() -> None:
    nodes = [SMALL, LARGE, LENDS]
    assert lacking(request(threads=16), nodes) == ""
    assert lacking(request(), nodes) == ""
    assert lacking(request(workers=9, gpus=9), nodes) == ""
    assert lacking(request(threads=17), nodes) == (
        "it requires 17 CPUs (resources.threads), and no node of the Ray cluster has more than 16"
    )
    assert lacking(request(threads=1, gpus=1), [SMALL]).endswith("no node of the Ray cluster has any")
    assert lacking(request(threads=1, memory_gb=100), nodes) == (
        "it requires 100.0 GB of memory (resources.memory_gb), and no node of the Ray cluster has more than 64.0"
    )
    assert lacking(request(threads=8, gpus=1), nodes) == (
        "it requires 8 CPUs, 1 GPUs, and no node of the Ray cluster has all of these"
    )


def test_a_placed_stage_takes_nothing_of_this_machine() -> None:
    here = Limits(2, 8.0, ("0",), {})
    assert here.take("a", Resources(threads=2)) is not None
    assert here.take("b", Resources(threads=64, gpus=8, placement="ray")) == {}
    assert here.take("c", Resources(threads=1)) is None
    here.give_back("b")
    here.give_back("a")
    assert here.take("c", Resources(threads=1)) == {"CUDA_VISIBLE_DEVICES": "0"}


def test_settings_go_along_and_the_machines_environment_does_not() -> None:
    passwords = {"MLFLOW_TRACKING_PASSWORD": "s", "BERTLINE_NOTIFY": "s", "HF_TOKEN": "s", "AWS_SECRET": "s"}
    settings = {"HF_HUB_OFFLINE": "1", "BERTLINE_MIRROR": "/mirror"}
    assert client.passed_on({**settings, **passwords, "HOME": "/root"}) == settings
    assert Command("a", "true", "/", "/log", ("torch",), {}).elsewhere({"B": "1"}) == (
        Command("a", "true", "/", "/log", (), {"B": "1"})
    )


def test_without_a_cluster_placed_stages_fail_in_one_sentence_and_local_ones_run(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Repo.init(no_scm=True).close()
    stages = {name: {"cmd": f"echo {name} > {name}.txt", "outs": [f"{name}.txt"]} for name in ("a", "b", "c")}
    Path("dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    away = {"placement": "ray"}
    Path("params.yaml").write_text(yaml.safe_dump({"resources": {"threads": 1, "stages": {"a": away, "b": away}}}))
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    before = time.monotonic()
    with pytest.raises(InputError) as error:
        executor.run(keep_going=True)
    assert time.monotonic() - before < 30
    for name in ("a", "b"):
        assert f"{name} failed: RAY_ADDRESS=127.0.0.1:1: no Ray cluster answers there (" in str(error.value)
    assert Path("c.txt").read_text() == "c\n"
