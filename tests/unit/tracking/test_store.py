"""What a store that cannot be used says."""

from pathlib import Path

import mlflow
import pytest

from pipelines.core.errors import InputError
from pipelines.tracking import store


def test_a_database_whose_driver_is_not_installed_is_one_sentence(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "mssql+pymssql://nobody@127.0.0.1:1/nothing")
    with pytest.raises(InputError, match=r"MLflow's store does not answer at mssql.*: No module named 'pymssql'"):
        store.connect()
    mlflow.set_tracking_uri(None)
