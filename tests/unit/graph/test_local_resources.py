"""How many stages the machine takes at once."""

from pathlib import Path

import pytest

from pipelines.core import container, threads
from pipelines.core.resources import Resources
from pipelines.graph.local_resources import Limits, cores, gpus, memory_gb
from pipelines.serving.model_threads import ModelThreads


def limits(**changes: object) -> Limits:
    return Limits(**{"cores": 4, "memory_gb": 16.0, "gpus": (), **changes})  # type: ignore[arg-type]


def test_threads_workers_and_memory_add_up() -> None:
    here = limits()
    assert here.take("a", Resources(threads=1, workers=2)) == {}
    assert here.take("b", Resources(threads=2, memory_gb=10)) == {}
    assert here.take("c", Resources(threads=1)) is None
    here.give_back("a")
    assert here.take("d", Resources(threads=1, memory_gb=7)) is None
    assert here.take("d", Resources(threads=1, memory_gb=6)) == {}
    assert here.take("e", Resources(threads=0)) is None


def test_a_stage_that_needs_more_than_the_machine_has_runs_alone() -> None:
    here = limits()
    assert here.take("a", Resources(threads=64, memory_gb=1000, gpus=2)) == {}
    assert here.take("b", Resources(threads=1)) is None


def test_a_gpu_is_one_stages() -> None:
    here = limits(gpus=("3", "5"))
    assert here.take("a", Resources(threads=1)) == {"CUDA_VISIBLE_DEVICES": "3"}
    assert here.take("b", Resources(threads=1, gpus=2)) is None
    assert here.take("c", Resources(threads=1, gpus=0.5)) == {"CUDA_VISIBLE_DEVICES": "5"}
    assert here.take("d", Resources(threads=1)) is None
    here.give_back("a")
    here.give_back("c")
    assert here.take("b", Resources(threads=1, workers=2, gpus=1)) == {"CUDA_VISIBLE_DEVICES": "3,5"}


def test_the_environment_says_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,7")
    assert (cores(), gpus()) == (3, ("1", "7"))
    for setting, names in (("-1", ()), ("1,-1,7", ("1",))):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
        assert gpus() == names
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert cores() >= 1
    assert gpus() == ()


def test_a_container_has_its_own_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: range(8))
    monkeypatch.setattr(container, "CGROUP", tmp_path)
    of_the_machine = memory_gb()
    assert of_the_machine > 0.1
    for limit, quota, expected in (
        ("100000000", "250000 100000", (0.1, 3)),
        ("100000000", "20000 100000", (0.1, 1)),
        ("max", "max 100000", (of_the_machine, 8)),
        (f"{1 << 60}", "6400000 100000", (of_the_machine, 8)),
    ):
        (tmp_path / "memory.max").write_text(limit + "\n")
        (tmp_path / "cpu.max").write_text(quota + "\n")
        assert (memory_gb(), cores()) == expected
        assert threads.of_container() == {"m": 0, "6": 64}.get(quota[0], expected[1])
        with ModelThreads() as of_a_service:
            assert of_a_service.count == expected[1]
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert threads.of_container() == 0, "the person has decided"
