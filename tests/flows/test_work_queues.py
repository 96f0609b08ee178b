"""Folder jobs queue through Prefect: where the pool has a limit, an urgent one is the next, and no other beside it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate

from flows.local import deployments, temporary_server, work_queues
from flows.trigger import trigger
from pipelines.core.errors import InputError, UsageError
from tests.support import commands, servers
from tests.support.places import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def client(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SyncPrefectClient]:
    """A client of a temporary server that has the pool, with a limit of one run, and the deployment of folders."""
    temporary_server.use()
    monkeypatch.setenv("PWD", str(ROOT))  # prefect.yaml names it
    template = yaml.safe_load((ROOT / "prefect.yaml").read_text())
    template["deployments"] = [one for one in template["deployments"] if one["name"] == "folder"]
    (checkout / "prefect.yaml").write_text(yaml.safe_dump(template))
    with get_client(sync_client=True) as client:
        api = str(client.api_url).rstrip("/")
        monkeypatch.setenv("PREFECT_API_URL", api)
        with commands.using_prefect(api):
            pool = WorkPoolCreate(name=work_queues.POOL, type="process", concurrency_limit=1)
            client.create_work_pool(pool, overwrite=True)
            work_queues.make_urgent(api)
            deploy = [servers.BIN / "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", "prefect.yaml"]
            done = subprocess.run(deploy, cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            yield client


def test_an_urgent_folder_is_the_next(
    client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BERTLINE_QUIET", "")
    first, second = (trigger("score-folder/folder", ["source=a"]) for _ in range(2))
    urgent = trigger("score-folder/folder", ["source=b"], work_queues.URGENT)
    runs = [due.flow_run for due in client.get_scheduled_flow_runs_for_work_pool(work_queues.POOL)]
    assert [run.name for run in runs] == [urgent], "the pool has a limit of one run"
    assert runs[0].parameters["source"] == "b"
    client.update_work_pool(work_queues.POOL, WorkPoolUpdate(concurrency_limit=None))
    work_queues.make_urgent(str(client.api_url).rstrip("/"))  # it is there already
    runs = [due.flow_run for due in client.get_scheduled_flow_runs_for_work_pool(work_queues.POOL)]
    assert [run.name for run in runs] == [urgent, first, second]
    assert "no worker of the pool bertline is up, so the run waits" in capsys.readouterr().err
    with pytest.raises(UsageError, match="no work queue 'scorng'"):
        trigger("score-folder/folder", queue="scorng")
    assert "scorng" not in [one.name for one in client.read_work_queues(work_queues.POOL)]
    api = str(client.api_url).rstrip("/")
    with monkeypatch.context() as patch:
        patch.setattr(deployments, "names", lambda: ["score-folder/other"])
        with pytest.raises(UsageError, match=r"/api: no deployment 'score-folder/other' on this server"):
            trigger("score-folder/other")
        patch.setenv("PREFECT_API_URL", api.removesuffix("/api"))
        with commands.using_prefect(api.removesuffix("/api")), pytest.raises(UsageError, match="ends with /api"):
            trigger("score-folder/folder")
    with pytest.raises(InputError, match="the work queue urgent cannot be made"):
        work_queues.make_urgent("http://127.0.0.1:9")
