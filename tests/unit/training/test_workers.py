"""Starting Ray: a machine that is too busy for Ray's own limit is given a second time, and then a sentence."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import ray

from pipelines.core.errors import InputError
from pipelines.core.ports import free_port
from pipelines.training import workers
from tests.support.places import ROOT

SLOW = Exception("The current node timed out during startup. This could happen because some of the raylet failed")


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> list[Exception | None]:
    """How each call of ray.init ends, in order; Ray itself needs a machine so busy that 30 s are too few."""
    outcomes_left: list[Exception | None] = []

    def init(*_: Any, **__: Any) -> None:
        if error := outcomes_left.pop(0):
            raise error

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    return outcomes_left


def test_a_node_that_was_too_slow_is_started_once_more(outcomes: list[Exception | None]) -> None:
    outcomes += [SLOW, None]
    assert workers.start()
    assert outcomes == []


def test_a_node_that_is_too_slow_twice_fails_in_one_sentence(outcomes: list[Exception | None]) -> None:
    outcomes += [SLOW, SLOW, None]
    with pytest.raises(InputError, match="its node did not start within 30 s, twice; this machine is too busy"):
        workers.start()


def test_other_errors_of_ray_are_not_retried(outcomes: list[Exception | None]) -> None:
    outcomes += [Exception("no space left"), None]
    with pytest.raises(Exception, match="no space left"):
        workers.start()
    assert outcomes == [None]


@pytest.mark.parametrize("earlier", ["", "the token of an earlier Ray"])
def test_nobody_else_reads_the_token_of_ray(
    outcomes: list[Exception | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    token = tmp_path / ".ray/auth_token"
    if earlier:  # which Ray created with the permissions of any file
        token.parent.mkdir()
        token.write_text(earlier)
    outcomes += [None]
    workers.start()
    assert token.stat().st_mode & 0o777 == 0o600
    assert token.read_text() == earlier or len(token.read_text()) == 64
    assert list(token.parent.iterdir()) == [token]


SECRETS = {
    "MLFLOW_TRACKING_PASSWORD": "planted-1",
    "MLFLOW_TRACKING_URI": "http://me:planted-2@127.0.0.1:9",
    "BERTLINE_NOTIFY": "http://127.0.0.1:9/planted-3",
    "BERTLINE_PASSWORD": "planted-4",
    "PREFECT_API_AUTH_STRING": "me:planted-5",
}


@pytest.mark.parametrize("cluster", ["", "127.0.0.1:6379"])
def test_no_secret_is_in_what_ray_logs(cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**SECRETS, "RAY_ADDRESS": cluster, "BERTLINE_OFFLINE": "1"}.items():
        monkeypatch.setenv(name, value)
    environment = workers.runtime_environment()["env_vars"]
    assert "planted" not in str(environment)
    assert environment.get("BERTLINE_OFFLINE") == ("1" if cluster else None)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://127.0.0.1:9/x?user=me&password=planted-6")
    assert "planted" not in str(workers.runtime_environment()["env_vars"])


PLANTED = """
import os, shutil, ray
from pipelines.serving import deployment
with deployment.started("127.0.0.1", 0 or PORT):
    see = ray.remote(lambda: [os.environ.get(name) for name in NAMES])
    assert ray.get(see.remote()) == VALUES, "a worker here has what it needs"
    session = ray._private.worker.global_worker.node.get_session_dir_path()  # it may be removed at the end
    shutil.copytree(session, "session", ignore=shutil.ignore_patterns("sockets", "*.sock"), symlinks=True)
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_file_of_rays_session_has_a_secret(checkout: Path) -> None:
    values = {"NAMES": str([*SECRETS]), "VALUES": str([*SECRETS.values()]), "PORT": str(free_port())}
    code = PLANTED
    for name, value in values.items():
        code = code.replace(name, value)
    environment = os.environ | SECRETS | {"PYTHONPATH": str(ROOT), "HOME": str(checkout)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    files = [path for path in checkout.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert [str(path) for path in files if b"planted-" in path.read_bytes()] == []
    assert "planted-" not in done.stdout + done.stderr
    assert (checkout / ".ray/auth_token").stat().st_mode & 0o777 == 0o600
