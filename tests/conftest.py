"""What every test stands on: no network but loopback, and an empty checkout to work in."""

import os
import shutil
import signal
from collections.abc import Generator, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import ROOT, remove_temporary, temporary

# a machine that is lent for its GPU has torch and little else: there `pytest -m gpu` collects tests/gpu alone
WHOLE = all(find_spec(name) for name in ("hypothesis", "prefect", "ray"))
collect_ignore = [] if WHOLE else [folder.name for folder in Path(__file__).parent.iterdir() if folder.name != "gpu"]

READ_BY_TESTS = {"BERTLINE_MIRROR", "BERTLINE_KILLS", "BERTLINE_CLIENTS", "BERTLINE_LOAD_MINUTES"}


def of_the_user(environment: Iterable[str]) -> list[str]:
    """The variables of bertline that a test must not see: with them it would ask the user's own service."""
    return [name for name in environment if name.startswith("BERTLINE_") and name not in READ_BY_TESTS]


for _name in of_the_user(os.environ):
    del os.environ[_name]
PREFECT = temporary("bertline-prefect-")
os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",  # a report of a worker waits for the next one
    "RAY_worker_niceness": "0",  # workers would give way to the tests beside them
    "PREFECT_HOME": str(PREFECT),
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "400",  # on a busy machine its import takes minutes
    "DO_NOT_TRACK": "1",
    "BERTLINE_QUIET": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "GIT_CONFIG_GLOBAL": os.devnull,  # the user's may sign commits, or ignore files
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "1",  # but this checkout may be another user's, as in a container
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": str(ROOT),
}
# a shell starts what it runs in the background without Ctrl-C, and what the tests start would not know it either
signal.signal(signal.SIGINT, signal.default_int_handler)
if WHOLE:
    import hypothesis

    from flows.local import prefect_settings

    hypothesis.settings.register_profile("untimed", deadline=None)  # an example may wait for a busy machine
    hypothesis.settings.load_profile("untimed")
    prefect_settings.use_local_state()  # before any test's module imports Prefect, which reads its settings once
SETTINGS = [
    "BERTLINE_MIRROR",
    "MLFLOW_TRACKING_URI",
    "RAY_ADDRESS",
    "PREFECT_HOME",
    "PREFECT_API_URL",
]
SOAK_SECONDS = 6 * 3600  # for a test of `make soak`, which repeats what others do once
BEFORE = pytest.StashKey[float]()  # the processor seconds when a test began
# A group of slow tests is one process's, in turn: more than three Rays are too many for two cores, and a driver on one
# machine may join the nodes of another cluster.
GROUPS = {
    "tests/serving/test_in_a_cluster.py": "clusters",
    "tests/serving/test_killed_node.py": "clusters",
    "tests/faults/test_cluster.py": "clusters",
    "tests/faults/test_placement.py": "clusters",
    "tests/scoring/test_on_a_cluster.py": "clusters",
    "tests/flows/test_services.py": "served",
    "tests/serving/": "served",
    "tests/faults/test_distillation_faults.py": "workers",
    "tests/faults/test_ray_workers.py": "workers",
}
# The longest begin first (benchmarks/results/durations.json), or one of them would be waited for at the end.
LONGEST = ("served", "clusters", "workers", "test_compress_search.py", "test_graph.py", "test_story.py")
LONGEST += (
    "test_tutorials.py",
    "test_first_hour.py",
    "test_prefect_faults.py",
    "test_registration_faults.py",
    "test_servers_killed.py",
)


def group(node: str) -> str:
    """What runs in one process with the test of this id: its group, or its file with what that made."""
    return next((name for start, name in GROUPS.items() if node.startswith(start)), node.split("::")[0])


def pytest_unconfigure() -> None:
    remove_temporary()  # a process of xdist ends without its exit handlers


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        name = group(item.nodeid).rpartition("/")[2]
        return LONGEST.index(name) if name in LONGEST else len(LONGEST)

    items.sort(key=place)
    for item in items:
        if item.get_closest_marker("soak"):
            item.add_marker(pytest.mark.timeout(SOAK_SECONDS), append=False)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadscope`, a process takes a whole group of tests."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid)

    return Groups(config, log) if config.getvalue("dist") == "loadscope" else None


def core_seconds() -> float:
    """Processor seconds of this process and of those that it started and waited for."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    item.stash[BEFORE] = core_seconds()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Leave the processor seconds of a test, with its fixtures, in the report that benchmarks/durations.py reads."""
    try:
        return (yield)
    finally:
        item.user_properties.append(("core_seconds", round(core_seconds() - item.stash[BEFORE], 2)))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder as the working directory, with nothing of this machine's settings."""
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def workspace(checkout: Path) -> Path:
    """A copy of this checkout's code and samples, in which stages and DVC can run."""
    copy_project(checkout)
    return checkout


def copy_project(place: Path) -> None:
    """What a workspace holds, for a fixture of a whole module too."""
    for name in ("pipelines", "bertline", "flows", "samples", "encoders", "dvc.yaml", "params.yaml", ".dvcignore"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, place / name)
