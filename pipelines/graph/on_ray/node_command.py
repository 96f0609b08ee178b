"""Run a stage's command on a node of a Ray cluster, and end it when the executor has gone.

Ray's worker (driver.py) starts `python -m pipelines.graph.on_ray.node_command`, writes the command to its stdin, and
keeps stdin open. When the worker ends, even by a kill, stdin closes, and the command's process group is killed. While
the command may run, this process holds a lock in the checkout that all nodes share, so a stage never runs twice at the
same time.
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
RAY_VARIABLES = ("RAY_", "__RAY_", "PYTHONBREAKPOINT")  # prefixes of the variables that Ray sets in its workers
KEPT = ("RAY_AUTH_", workers.LOOPBACK)  # prefixes of those that are needed to join the cluster
PATIENCE_SECONDS = 180  # to wait for a lock: NFS frees the locks of a dead machine after its lease, 90 seconds


def main() -> None:
    """Read a `forkserver.Command` from stdin as JSON; print its exit status, or why there is none, as JSON."""
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
    """Wait for `child`, the process that attends the command. If it is killed, kill the command's process group.

    When Ray ends a worker, it kills the worker's direct child at once. This process is that child, so the process that
    attends the command survives and can end it.
    """
    for stream in (0, 1):
        os.close(stream)
    _, status = os.waitpid(child, 0)
    if status and (group := os.read(pipe, 64)):
        forkserver.kill_group(int(group), signal.SIGKILL)
    os._exit(0)


def attend(command: forkserver.Command, tells: int) -> int | None:
    """Run the command while stdin is open, and write its process group to the pipe `tells`.

    Returns the exit status; None if the command was ended because stdin closed.
    """
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
        if time.monotonic() - flushed > FLUSH_SECONDS:  # only then do others see the log on a network disk
            os.fsync(log)
            flushed = time.monotonic()
    if status:
        forkserver.kill_group(process.pid, signal.SIGKILL)  # processes that the failed stage left behind
    return status


def _gone(seconds: float = 0) -> bool:
    """Return whether stdin has closed. The worker writes nothing more to it, so it becomes readable only then."""
    return bool(select.select([0], [], [], seconds)[0])


def _end(process: "subprocess.Popen[bytes]") -> None:
    forkserver.kill_group(process.pid, signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_SECONDS)
    forkserver.kill_group(process.pid, signal.SIGKILL)
    process.wait()


def run(command: forkserver.Command) -> int:
    """Run the command from Ray's worker; returns its exit status. Raises InputError if it cannot start."""
    call = [sys.executable, "-m", "pipelines.graph.on_ray.node_command"]
    with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps(command).encode() + b"\n")
        process.stdin.flush()
        output = process.stdout.read()  # until the command has ended
    result = json.loads(output) if output else -signal.SIGKILL
    if not isinstance(result, int):
        raise InputError(f"{result or 'it was killed'} (on {gethostname()})")
    return result


def lock_of(name: str) -> Path:
    """The lock file that is held while a stage may run on a node."""
    return paths.lock("placed", name)


def holder(name: str) -> str:
    """The process and machine where a stage may still run on a node; "" if it runs nowhere."""
    with suppress(FileNotFoundError), lock_of(name).open("r+", encoding="utf-8") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return file.read().strip() or "a process"
    return ""


def wait_for(names: Iterable[str], seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until none of these stages runs on a node; one may run on briefly after its executor was killed.

    Raises InputError if one still runs after `seconds`.
    """
    until = time.monotonic() + seconds
    for name in names:
        if who := holder(name):
            say(f"{name}: an earlier run of it still runs, as {who}; waiting for its end")
        while who := holder(name):
            if time.monotonic() > until:
                raise InputError(f"{name}: an earlier run of it still runs, as {who}; stop it there")
            time.sleep(TICK_SECONDS)


def environment(
    of_worker: dict[str, str], passed_on: dict[str, str], cpus: int, gpus: float, cluster: str
) -> dict[str, str]:
    """The environment of a command on a node.

    Args:
        of_worker: the environment of Ray's worker. Variables that Ray sets for itself are left out.
        passed_on: the variables from the executor.
        cpus: the number of threads for libraries; 0 to leave it to them.
        gpus: the GPUs that Ray reserved. If 0, all GPUs are hidden, since libraries would use them.
        cluster: the address of Ray for a stage that trains with Ray Train; "" for other stages.
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
