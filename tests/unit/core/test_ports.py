"""A free port is one at which a server can begin to listen, and that no outgoing connection takes before."""

import socket

import pytest

from pipelines.core import ports


@pytest.mark.parametrize(("host", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)])
def test_a_server_can_listen_at_a_free_port(host: str, family: socket.AddressFamily) -> None:
    port = ports.free_port(host)
    assert ports.FIRST <= port < int(ports.RANGE.read_text().split()[0])
    with socket.create_server((host, port), family=family) as listener:
        assert listener.getsockname()[1] == port


def test_ports_in_use_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        monkeypatch.setattr(ports, "FIRST", busy.getsockname()[1])
        monkeypatch.setattr(ports, "TRIES", 1)  # it alone, then the system's choice
        monkeypatch.setattr(ports, "_first_of_connections", lambda: 0)
        assert ports.free_port() not in (0, busy.getsockname()[1])


def test_an_address_of_another_machine_has_no_free_port() -> None:
    with pytest.raises(OSError, match=r"192\.0\.2\.1: nothing can listen there"):
        ports.free_port("192.0.2.1")
