"""The files of the proxy in front of Ray Serve's replicas: what a killed service left is removed at the next start."""

import subprocess
import sys
from pathlib import Path

from pipelines.serving import ray_proxy
from tests.support.places import ROOT

SERVICE = """
import sys, time
from pipelines.serving import ray_proxy
with ray_proxy.own_folder() as place:
    print(place, flush=True)
    time.sleep(600)
"""


def started() -> tuple[subprocess.Popen[str], Path]:
    """A process with a folder for HAProxy, and that folder."""
    process = subprocess.Popen([sys.executable, "-c", SERVICE], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    return process, Path(process.stdout.readline().strip())


def test_the_folder_of_a_killed_service_is_removed_and_not_that_of_another() -> None:
    (killed, left), (running, used) = started(), started()
    with killed, running:
        killed.kill()
        killed.wait()
        assert left.is_dir()
        with ray_proxy.own_folder() as place, ray_proxy.own_folder() as second:
            assert not left.exists()
            assert used.is_dir()
            assert len({used, Path(place), Path(second)}) == 3
        running.kill()
    with ray_proxy.own_folder():
        assert not used.exists()
