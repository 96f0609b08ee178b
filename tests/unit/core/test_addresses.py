"""Passwords of addresses, wherever they stand in them."""

import pytest

from pipelines.core import addresses

SHOWN = {
    "http://127.0.0.1:5000": "http://127.0.0.1:5000",
    "sqlite:////home/me@work/state/mlflow.db": "sqlite:////home/me@work/state/mlflow.db",
    "file:///home/me@work/state": "file:///home/me@work/state",
    "http://me:planted@h/x": "http://h/x",
    "http://planted@h/x": "http://h/x",
    "https://me:pl@nted:planted@h:1/x": "https://h:1/x",
    "http://h:5000/api/x@y": "http://h:5000/api/x@y",
    "postgresql://u:planted/1@h/db": "postgresql://h/db",
    "postgresql://u:planted@1@h/db": "postgresql://h/db",
    "postgresql://u:planted 1/2@h/db": "postgresql://h/db",
    "postgresql://h/db?user=u&password=planted&x=1": "postgresql://h/db?user=u&password=...&x=1",
    "postgresql://h/db?sslmode=on&sslPassword=planted": "postgresql://h/db?sslmode=on&sslPassword=...",
}


@pytest.mark.parametrize("address", SHOWN)
def test_a_password_is_neither_shown_nor_sent(address: str) -> None:
    text, shown = (f"it fails at {place} (no answer); ask a@b" for place in (address, SHOWN[address]))
    assert addresses.without_passwords(text, address) == shown
    if " " not in address:  # else it is not known where the address ends
        assert addresses.without_passwords(text) == shown
    assert addresses.may_be_sent(address) == ("planted" not in address)
