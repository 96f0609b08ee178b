"""Start Ray, or join its cluster, and let worker processes find this checkout's packages and stores."""

import logging
import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

from pipelines.core import addresses, secret_file
from pipelines.core.errors import InputError, one_line

# "0" makes Ray's processes listen on 127.0.0.1 only; the name lists the systems where that is Ray's default
LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
# variables that the nodes of a cluster get; an address that may contain a password is left out
PASSED = ("BERTLINE_QUIET", "BERTLINE_MIRROR", "BERTLINE_OFFLINE", "BERTLINE_STRICT", "MLFLOW_TRACKING_URI")
PATIENCE_SECONDS = 5  # to connect to the head of a cluster
TOKEN = Path(".ray/auth_token")  # in the home folder; whoever reads it can run code in the Rays of this user
TOO_SLOW = "timed out during startup"  # from Ray's error if its node does not answer within 30 s, a fixed limit


def settle() -> None:
    """Set the environment variable that Ray reads when it is imported: loopback only, unless in a cluster."""
    if address() == "local":
        os.environ.setdefault(LOOPBACK, "0")


def start(**options: Any) -> bool:
    """Join the cluster in RAY_ADDRESS, else start Ray for this process; return whether one was started.

    Args:
        options: further arguments of ray.init.

    Raises:
        InputError: there is no cluster at RAY_ADDRESS, it refuses the connection, or this machine is too busy to start
            Ray.
    """
    settle()
    import ray

    if ray.is_initialized():
        return False
    _require_a_listener()
    if address() == "local":
        _keep_token_private()
    arguments: dict[str, Any] = {"runtime_env": runtime_environment(), "include_dashboard": False} | options
    try:
        _init(arguments)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        if address() == "local":
            raise
        raise InputError(f"RAY_ADDRESS={address()}: {one_line(error)}") from error
    return address() == "local"


def _init(options: dict[str, Any]) -> None:
    """Call ray.init, and once more if a busy machine was too slow: by then the files are cached in memory."""
    import ray

    for attempt in (1, 2):
        try:
            ray.init(address(), **options)
            return
        except Exception as error:  # Ray raises nothing more precise
            if TOO_SLOW not in str(error):
                raise
            ray.shutdown()
            if attempt == 2:
                raise InputError("Ray: its node did not start within 30 s, twice; this machine is too busy") from error


def _keep_token_private() -> None:
    """Make Ray's token a file that this user alone reads; Ray creates it with the permissions of any file."""
    token = Path.home() / TOKEN
    with suppress(OSError):  # a home folder that is read-only or another user's; Ray names it then
        secret_file.create(token, secrets.token_hex(32))
        if token.stat().st_mode & secret_file.OTHERS:
            token.chmod(secret_file.OWNER_ONLY)


def _require_a_listener() -> None:
    """Raise InputError if nothing listens at RAY_ADDRESS. Ray would try for a minute, and then end this process."""
    host, colon, port = address().removeprefix("ray://").rpartition(":")
    if not colon:
        return  # local, or auto
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE_SECONDS).close()
    except (OSError, ValueError) as error:
        raise InputError(
            f"RAY_ADDRESS={address()}: no Ray cluster answers there ({one_line(error)}); "
            "start one with `ray start --head`, or unset RAY_ADDRESS to start Ray on this machine"
        ) from None


def address() -> str:
    """The cluster in RAY_ADDRESS, else "local" for a new one; by default Ray would try this machine's last cluster."""
    return os.environ.get("RAY_ADDRESS") or "local"


def runtime_environment() -> dict[str, Any]:
    """Ray's runtime_env: the checkout on PYTHONPATH, shorter logs, and in a cluster a few variables of this process.

    Ray writes these variables into a log that everybody may read. A Ray on this machine inherits the environment and
    needs no more. The nodes of a cluster have their own passwords, so no passwords are sent to them.
    """
    here = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))
    names = () if address() == "local" else PASSED
    values = {name: os.environ[name] for name in names if name in os.environ}
    passed = {name: value for name, value in values.items() if "@" not in value and addresses.may_be_sent(value)}
    return {"env_vars": {**passed, "PYTHONPATH": here}, "worker_process_setup_hook": begin}


def begin() -> None:
    """Set up a worker process; Ray calls this first in each."""
    logging.getLogger("ray.train.v2").setLevel(logging.WARNING)  # its lines repeat our progress
    if os.environ.get(LOOPBACK) == "0":
        _replicas_on_loopback()


def _replicas_on_loopback() -> None:
    """Make a replica of Ray Serve listen to other deployments on 127.0.0.1 only, instead of on all interfaces.

    A replica unpickles what it receives, so anybody who reached that port could run code.
    """
    from ray._common import tls_utils

    listen = tls_utils.add_port_to_grpc_server
    tls_utils.add_port_to_grpc_server = lambda server, address: listen(server, address.replace("[::]", "127.0.0.1"))
