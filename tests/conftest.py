"""What every test stands on: no network but loopback, and an empty checkout to work in."""

import os
import shutil
import signal
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import ROOT

# a machine that is lent for its GPU has torch and little else: there `pytest -m gpu` collects tests/gpu alone
WHOLE = all(find_spec(name) for name in ("hypothesis", "prefect", "ray"))
collect_ignore = [] if WHOLE else [each.name for each in Path(__file__).parent.iterdir() if each.name != "gpu"]

PREFECT = tempfile.TemporaryDirectory(prefix="bertline-prefect-", ignore_cleanup_errors=True)
os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",  # a report of a worker waits for the next one
    "RAY_worker_niceness": "0",  # workers would give way to the tests beside them
    "PREFECT_HOME": PREFECT.name,
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "400",  # on a busy machine its import takes minutes
    "DO_NOT_TRACK": "1",
    "BERTLINE_QUIET": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
# a shell starts what it runs in the background without Ctrl-C, and what the tests start would not know it either
signal.signal(signal.SIGINT, signal.default_int_handler)
if WHOLE:
    import hypothesis

    from flows import settings

    hypothesis.settings.register_profile("untimed", deadline=None)  # an example may wait for a busy machine
    hypothesis.settings.load_profile("untimed")
    settings.use_local_state()  # before any test's module imports Prefect, which reads its settings once
SETTINGS = [
    "BERTLINE_MIRROR",
    "BERTLINE_OFFLINE",
    "MLFLOW_TRACKING_URI",
    "RAY_ADDRESS",
    "PREFECT_HOME",
    "PREFECT_API_URL",
]
STARTS_RAY = (
    "tests/faults/test_cluster.py",
    "tests/faults/test_placement.py",
    "tests/faults/test_distillation_faults.py",
    "tests/faults/test_ray_workers.py",
    "tests/flows/test_services.py",
    "tests/serving/",
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadscope`, tests that start Ray go to one process, in turn; other files to whichever is free."""
    from xdist.scheduler import LoadScopeScheduling

    class OneRayAtATime(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "ray" if nodeid.startswith(STARTS_RAY) else nodeid.split("::")[0]  # with what its module made

    return OneRayAtATime(config, log) if config.getvalue("dist") == "loadscope" else None


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
    for name in ("pipelines", "imports", "flows", "samples", "encoders", "dvc.yaml", "params.yaml", ".dvcignore"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, place / name)
