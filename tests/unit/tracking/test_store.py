"""What a store that cannot be used says."""

import re
import shutil
import traceback
from pathlib import Path

import mlflow
import pytest

from pipelines.core.errors import InputError
from pipelines.tracking import registry, store
from tests.support import stores


def test_a_database_whose_driver_is_not_installed_fails_in_one_sentence(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "mssql+pymssql://nobody@127.0.0.1:1/nothing")
    with pytest.raises(InputError, match=r"MLflow's store does not answer at mssql.*: No module named 'pymssql'"):
        store.connect()
    mlflow.set_tracking_uri(None)


@pytest.mark.parametrize("scheme", ["http", "postgresql+pg8000"])  # a driver that is not installed
def test_no_error_names_the_password_in_the_address(
    scheme: str, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"{scheme}://me:a-s3cr@t@127.0.0.1:9/x")
    with pytest.raises(InputError) as refused:
        store.connect()
    trace = "".join(traceback.format_exception(refused.value))
    assert f"MLflow's store does not answer at {scheme}://127.0.0.1:9/x: " in trace
    assert "s3cr" not in trace
    message = f"it fails at {scheme}://127.0.0.1:9/x: no {scheme}://127.0.0.1:9/y"
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"), store.explained("it fails"):
        raise OSError(f"no {scheme}://me:a-s3cr@t@127.0.0.1:9/y")
    mlflow.set_tracking_uri(None)


def test_a_copied_or_moved_checkout_does_not_use_the_files_of_the_other_place(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = checkout / "first", checkout / "second"
    for folder in (first, second):
        folder.mkdir()
        stores.place_in(folder)
    monkeypatch.chdir(first)
    store.connect()
    mlflow.set_tracking_uri(None)
    (checkout / "linked").symlink_to(first)
    monkeypatch.chdir(checkout / "linked")
    store.connect()  # the same place by another name
    mlflow.set_tracking_uri(None)
    shutil.copyfile(first / store.HOME / "mlflow.db", second / store.HOME / "mlflow.db")
    monkeypatch.chdir(second)
    made = re.escape(str(first / store.HOME))
    with pytest.raises(InputError, match=f"made in {made}, .*; set MLFLOW_TRACKING_URI=sqlite:///{made}/mlflow.db to"):
        store.connect()
    mlflow.set_tracking_uri(None)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{first / store.HOME / 'mlflow.db'}")
    store.connect()  # as the sentence says
    mlflow.set_tracking_uri(None)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    shutil.rmtree(first)
    with pytest.raises(
        InputError, match=f"files in {made}, where no registry is; move this checkout back .* loses all"
    ):
        store.connect()
    mlflow.set_tracking_uri(None)


def test_a_checkout_that_is_mounted_in_a_second_place_uses_its_files(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores.place_in(checkout)
    store.connect()
    mlflow.set_tracking_uri(None)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    mounted = checkout.with_name("mounted")  # a mount needs rights that a test lacks; a link alone would be resolved
    mounted.symlink_to(checkout)
    monkeypatch.setattr(Path, "resolve", lambda path: mounted / path)
    store.connect()
    mlflow.set_tracking_uri(None)


def test_a_path_with_a_question_mark_is_refused(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout / "a?b").mkdir()
    monkeypatch.chdir(checkout / "a?b")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(InputError, match=r"a\?b/state/mlflow: the path of a registry has no `\?`"):
        store.connect()
    assert list(checkout.rglob("*.db")) == []


def test_who_reads_makes_no_database_at_a_mistyped_address(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("sqlite:///mistyped.db", f"sqlite:///{checkout}/mistyped.db"):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        with pytest.raises(InputError, match=f"^MLFLOW_TRACKING_URI={address}: no such database"):
            store.existing()
        assert registry.versions() == []
    assert list(checkout.rglob("*.db")) == []
    for address in ("http://127.0.0.1:9", "sqlite://"):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        assert store.is_there()
