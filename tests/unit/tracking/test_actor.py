"""The name that an event records as its writer."""

import getpass
import os

import pytest

from pipelines.tracking import ledger


def test_a_user_without_a_name_is_named_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may run as any user, of whom the system knows no name."""

    def unknown() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    for name in ("BERTLINE_ACTOR", "MLFLOW_TRACKING_USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(getpass, "getuser", unknown)
    assert ledger.actor().startswith(f"user-{os.getuid()}@")
    monkeypatch.setenv("BERTLINE_ACTOR", "ann")
    assert ledger.actor() == "ann"
