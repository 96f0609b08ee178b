"""A port of this machine that is free now."""

import random
import socket
from contextlib import suppress
from pathlib import Path

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")  # the ports that Linux gives to outgoing connections
FIRST = 20_000  # Ray's workers listen below
TRIES = 100


def free_port(host: str = "127.0.0.1") -> int:
    """A port at which nothing listens.

    No outgoing connection can take it before the server begins to listen, as it could one that the system chooses.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    numbers = range(FIRST, max(FIRST + TRIES, _first_of_connections()))
    for port in [*random.SystemRandom().sample(numbers, TRIES), 0]:  # 0: the system chooses
        with suppress(OSError), socket.socket(family) as probe:
            probe.bind((host, port))
            probe.listen()
            number: int = probe.getsockname()[1]
            return number
    raise OSError(f"{host}: nothing can listen there")


def _first_of_connections() -> int:
    try:
        return int(RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32_768  # Linux's default
