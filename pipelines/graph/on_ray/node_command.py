"""On a node of a Ray cluster: run a stage's command, and end it when whoever asked for it has gone.

Ray's worker (driver.py) starts `python -m pipelines.graph.on_ray.node_command`, writes the command to its stdin, and
leaves that open. When the worker ends, in whatever way, stdin does too, and the command's process group is killed.
While the command may run a lock is held in the checkout that all nodes share, so that no stage is ever run twice at a
time.
"""

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from socket import gethostname

from pipelines.core import paths, threads
from pipelines.core.errors import InputError
from pipelines.core.progress import say
from pipelines.graph import forkserver
from pipelines.training import workers

TICK_SECONDS, FLUSH_SECONDS = 0.05, 1.0
GRACE_SECONDS = 3  # between an interrupt and a kill
RAY_VARIABLES = ("RAY_", "__RAY_", "PYTHONBREAKPOINT")  # names that Ray sets in its workers
KEPT = ("RAY_AUTH_", workers.LOOPBACK)  # what it takes to join their cluster
PATIENCE_SECONDS = 180  # for a lock: a server of NFS frees those of a machine without power after its lease, 90 seconds


def main() -> None:
    """Reads a `warm.Command` from stdin as JSON, and prints the exit status, or why there is none, as JSON."""
    read, write = os.pipe()
    if child := os.fork():
        os.close(write)
        _stay_between(child, read)
    os.close(read)
    command = forkserver.Command(*json.loads(sys.stdin.buffer.readline()))
    lock = lock_of(command.name)
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a+", encoding="utf-8") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        file.truncate(0)
        print(f"process {os.getpid()} on {gethostname()}", end="", file=file, flush=True)
        result: int | str | None = None
        with suppress(BrokenPipeError):
            try:
                result = attend(command, write)
            except OSError as error:
                result = str(error)
            print(json.dumps(result), flush=True)


def _stay_between(child: int, pipe: int) -> None:
    """Wait for the process that attends the command. If that is killed, kill the command's group.

    When Ray ends a worker it kills the worker's own child, this process, at once. So the other one is not that child.
    """
    for stream in (0, 1):
        os.close(stream)
    _, status = os.waitpid(child, 0)
    if status and (group := os.read(pipe, 64)):
        forkserver.kill_group(int(group), signal.SIGKILL)
    os._exit(0)


def attend(command: forkserver.Command, tells: int) -> int | None:
    """Run the command while stdin is open, and write its group to `tells`; returns its status, None if it was ended."""
    if _gone():
        return None
    log = os.open(command.log, os.O_WRONLY | os.O_APPEND)
    words = forkserver.module_call(command.line)
    call = [sys.executable, "-m", *words] if words else ["/bin/sh", "-c", command.line]
    process = subprocess.Popen(
        call,
        cwd=command.folder,
        env=command.environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        preexec_fn=forkserver.end_with_parent,  # if this process is killed too
    )
    os.write(tells, str(process.pid).encode())
    flushed = time.monotonic()
    while (status := process.poll()) is None:
        if _gone(TICK_SECONDS):
            _end(process)
            return None
        if time.monotonic() - flushed > FLUSH_SECONDS:  # a network file system shows it to others only then
            os.fsync(log)
            flushed = time.monotonic()
    if status:
        forkserver.kill_group(process.pid, signal.SIGKILL)  # what a failed stage has started and left
    return status


def _gone(seconds: float = 0) -> bool:
    """Return whether stdin has ended. Nothing more is written to it, so it is readable only at its end."""
    return bool(select.select([0], [], [], seconds)[0])


def _end(process: "subprocess.Popen[bytes]") -> None:
    forkserver.kill_group(process.pid, signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_SECONDS)
    forkserver.kill_group(process.pid, signal.SIGKILL)
    process.wait()


def run(command: forkserver.Command) -> int:
    """In Ray's worker: have the command run; returns its exit status. Raises InputError where it cannot begin."""
    call = [sys.executable, "-m", "pipelines.graph.on_ray.node_command"]
    with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps(command).encode() + b"\n")
        process.stdin.flush()
        output = process.stdout.read()  # to its end: that of the command
    result = json.loads(output) if output else -signal.SIGKILL
    if not isinstance(result, int):
        raise InputError(f"{result or 'it was ended'} (on {gethostname()})")
    return result


def lock_of(name: str) -> Path:
    """The lock that is held while a placed stage may run."""
    return paths.lock("placed", name)


def holder(name: str) -> str:
    """The process and the machine on which a placed stage may still run; "" if it does nowhere."""
    with suppress(FileNotFoundError), lock_of(name).open("r+", encoding="utf-8") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return file.read().strip() or "a process"
    return ""


def wait_for(names: Iterable[str], seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until none of these stages runs on a node, as one may for a moment after its executor was killed."""
    until = time.monotonic() + seconds
    for name in names:
        if who := holder(name):
            say(f"{name}: still ends, as {who}, placed by an earlier run; waiting for it")
        while who := holder(name):
            if time.monotonic() > until:
                raise InputError(f"{name} still runs, as {who}, placed by an earlier run; stop it there")
            time.sleep(TICK_SECONDS)


def environment(
    of_worker: dict[str, str], passed_on: dict[str, str], cpus: int, gpus: float, cluster: str
) -> dict[str, str]:
    """The environment of a command on a node.

    Args:
        of_worker: the environment of Ray's worker. What Ray sets there for itself is left out.
        passed_on: what the executor passes on.
        cpus: how many threads libraries begin.
        gpus: what Ray lends; without any no library sees a GPU, for it would take it.
        cluster: the address of Ray for a stage that trains with Ray Train; "" for another one.
    """
    inherited = {
        name: value for name, value in of_worker.items() if name.startswith(KEPT) or not name.startswith(RAY_VARIABLES)
    }
    inherited["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), of_worker.get("PATH", os.defpath)])
    inherited |= dict.fromkeys(threads.VARIABLES, str(cpus)) if cpus else {}
    devices = {} if gpus else {"CUDA_VISIBLE_DEVICES": ""}
    return inherited | passed_on | devices | ({"RAY_ADDRESS": cluster} if cluster else {})


if __name__ == "__main__":
    main()
