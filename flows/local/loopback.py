"""Calls to servers of this machine, which no proxy of the network can reach."""

import os

NAMES = ("127.0.0.1", "localhost", "::1")
VARIABLES = ("no_proxy", "NO_PROXY")  # urllib, httpx and requests prefer the first; some programs know the second alone


def without_proxy() -> None:
    """Except this machine from the proxy of http_proxy, for this process, its libraries and what it starts.

    A proxy would be sent keys, and could not call back. Other exceptions stay.
    """
    listed = next((os.environ[name] for name in VARIABLES if os.environ.get(name)), "")
    hosts = [host.strip() for host in listed.split(",") if host.strip()]
    if "*" not in hosts:
        hosts += [name for name in NAMES if name not in hosts]
    for name in VARIABLES:
        os.environ[name] = ",".join(hosts)
