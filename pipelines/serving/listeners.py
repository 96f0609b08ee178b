"""The ports of this machine at which a service's processes listen to other machines."""

import ipaddress
import time
from contextlib import suppress

import psutil

SECONDS = 10  # for a proxy to listen


def reachable(own_port: int) -> list[str]:
    """The listeners of this process and its children that other machines reach, such as `haproxy at 0.0.0.0:8404`.

    Args:
        own_port: the port of the service itself, which is left out. A proxy that is being replaced is waited for.
    """
    deadline = time.monotonic() + SECONDS
    while True:
        listening = of(psutil.Process())
        if any(port == own_port for _, _, port in listening) or time.monotonic() > deadline:
            return sorted(
                f"{name} at {ip}:{port}" for name, ip, port in listening if port != own_port and not is_loopback(ip)
            )
        time.sleep(0.1)


def of(parent: psutil.Process) -> set[tuple[str, str, int]]:
    """The listeners of a process and its children: the name of the process, the address and the port of each."""
    listening = set()
    for process in [parent, *parent.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            for connection in process.net_connections("inet"):
                if connection.status == psutil.CONN_LISTEN:
                    listening.add((process.name().partition(".")[0], connection.laddr.ip, connection.laddr.port))
    return listening


def is_loopback(address: str) -> bool:
    """Return whether only this machine reaches an address; one of IPv4 may be written as one of IPv6."""
    known = ipaddress.ip_address(address)
    mapped = known.ipv4_mapped if isinstance(known, ipaddress.IPv6Address) else None
    return (mapped or known).is_loopback
