"""A warm process: it imports once what stages import, and forks a child for each command.

The executor talks to it over a pipe. A child runs its command as `python -m` would, in its own session, with its
output in a log file. When the executor ends, even by a kill, the warm process kills its children and ends too.
"""

import atexit
import ctypes
import importlib
import os
import runpy
import shlex
import signal
import subprocess
import sys
import time
import traceback
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.core import locks

IMPORT_SECONDS = 3  # how long an executor that ends waits for the warm process, which may be in the middle of an import
PR_SET_PDEATHSIG = 1  # of Linux's prctl
SHELL = set('|&;<>()$`\\"*?[]#~=%\n!{}')  # a command with any of these runs in the shell


class Command(NamedTuple):
    """The command that a child runs.

    Attributes:
        modules: the modules to import before the fork, each as "module" or "module:name".
        environment: the variables that differ from the executor's environment.
    """

    name: str
    line: str
    folder: str
    log: str
    modules: tuple[str, ...]
    environment: dict[str, str]

    def elsewhere(self, environment: dict[str, str]) -> "Command":
        """The same command for another machine: with this environment, and without modules to import ahead."""
        return Command(self.name, self.line, self.folder, self.log, (), environment)


class Started(NamedTuple):
    name: str
    pid: int


class Ended(NamedTuple):
    """The end of a child; `status` is its exit status, or minus the number of the signal that killed it."""

    name: str
    status: int


class WarmProcess:
    """The executor's side of the pipe. Leaving the block kills the children that still run.

    In each `folder` only one warm process runs at a time.
    """

    def __init__(self, ahead: Iterable[str] = (), folder: Path = Path()) -> None:
        self._ahead, self._folder, self._groups = tuple(ahead), folder, dict[str, int]()
        self._unreported: set[str] = set()  # commands that were sent, but not yet reported as started
        self.pipe: Any = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "WarmProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self._end(signal.SIGINT, 3)
        self._end(signal.SIGKILL, 1)
        if self._process:
            if self._unreported:  # the warm process may have started a child and not reported it yet
                with suppress(OSError):
                    self.pipe.send(None)
                with suppress(subprocess.TimeoutExpired):  # it is in an import, and starts nothing meanwhile
                    self._process.wait(IMPORT_SECONDS)
                self._end(signal.SIGKILL, 1)
            self._process.kill()
            self._process.wait()
            self.pipe.close()

    def start(self, command: Command) -> None:
        """Run `command` in a new child. The first call starts the warm process."""
        if self._process is None:
            self.pipe, other = Pipe()
            call = [sys.executable, "-c", f"from pipelines.graph import forkserver; forkserver.main({other.fileno()})"]
            self._process = subprocess.Popen(
                call,
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                cwd=self._folder,
                env=os.environ | ({"PYTHONPATH": self._code()} if self._folder != Path() else {}),
            )
            other.close()
            self.pipe.send(self._ahead)
        with suppress(ConnectionError):  # it has died, which `events` reports
            self.pipe.send(command)
        self._unreported.add(command.name)

    def kill(self, name: str) -> None:
        """Kill the child that runs this command, and what it has started."""
        if pid := self._groups.get(name):
            kill_group(pid, signal.SIGKILL)
            with suppress(ProcessLookupError):  # it may not have its group yet
                os.kill(pid, signal.SIGKILL)

    @staticmethod
    def _code() -> str:
        """The PYTHONPATH with the current folder in front, for a warm process that starts in another folder."""
        return os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH", "")]))

    def events(self, seconds: float) -> list[Started | Ended]:
        """Wait at most `seconds`, and return the events so far. Raises EOFError if the warm process has died."""
        events: list[Started | Ended] = []
        while self.pipe is not None and self.pipe.poll(0 if events else seconds):
            try:
                event = self.pipe.recv()
            except ConnectionError as error:  # it died with commands unread
                raise EOFError from error
            events.append(event)
            if isinstance(event, Started):
                self._groups[event.name] = event.pid
                self._unreported.discard(event.name)
            else:
                del self._groups[event.name]
        return events

    def _end(self, by: signal.Signals, seconds: float) -> None:
        """Send a signal to every child, and wait at most `seconds` until they have ended."""
        with suppress(EOFError, OSError):
            self.events(0)
        for pid in self._groups.values():
            kill_group(pid, by)
        until = time.monotonic() + seconds
        with suppress(EOFError, OSError):
            while self._groups and (seconds_left := until - time.monotonic()) > 0:
                self.events(seconds_left)


def kill_group(pid: int, by: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, by)


class ForkServer:
    """The warm process."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.children: dict[int, str] = {}
        self.imported: set[str] = set()
        self.waiting: list[Command] = []
        self.ahead = deque[str](pipe.recv())
        self.woken, self.wakes = os.pipe()
        os.set_blocking(self.wakes, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler, no byte is written to `wakes`
        signal.set_wakeup_fd(self.wakes, warn_on_full_buffer=False)

    def serve(self) -> Command | None:
        """Import and fork until the executor has gone. A child gets its command returned, the warm process None."""
        while True:
            for command in self.waiting:
                if self.imported.issuperset(command.modules) and self._fork(command):
                    return command
            self.waiting = [command for command in self.waiting if command.name not in self.children.values()]
            busy = bool(self.waiting or self.ahead)
            ready = wait([self.pipe, self.woken], 0 if busy else None)
            try:
                if self.woken in ready:
                    os.read(self.woken, 1 << 12)
                    self._reap()
                if self.pipe in ready:
                    if (command := self.pipe.recv()) is None:
                        raise EOFError
                    self.waiting.append(command)
            except (EOFError, OSError):
                for pid in self.children:
                    kill_group(pid, signal.SIGKILL)
                return None
            if not ready and busy:
                self._import()

    def _import(self) -> None:
        """Import one module: one that a waiting command needs, else one that later commands need."""
        modules = (module for command in self.waiting for module in command.modules if module not in self.imported)
        module = next(modules, "") or self.ahead.popleft()
        self.imported.add(module)
        with suppress(Exception):  # the child fails with the same error when it imports the module
            package, _, name = module.partition(":")
            imported = importlib.import_module(package)
            if name:
                getattr(imported, name)  # transformers imports a class's module on access

    def _fork(self, command: Command) -> bool:
        """Fork a child for the command; return whether this process is the child."""
        pid = os.fork()
        if pid:
            self.children[pid] = command.name
            self.pipe.send(Started(command.name, pid))
            return False
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.pipe.close()
        os.close(self.woken)
        os.close(self.wakes)
        return True

    def _reap(self) -> None:
        """Report the children that have ended."""
        while self.children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            name, code = self.children.pop(pid), os.waitstatus_to_exitcode(status)
            if code:
                kill_group(pid, signal.SIGKILL)  # processes that the failed stage left behind
            self.pipe.send(Ended(name, code))


def module_call(line: str) -> list[str]:
    """The module and arguments of a plain `python -m MODULE ...`; empty if the command needs the shell."""
    words = shlex.split(line) if not SHELL & set(line) else []
    return words[2:] if words[:2] == ["python", "-m"] else []


def end_with_parent() -> None:
    """Have the system kill this process when its parent ends (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def run(command: Command, parent: int) -> None:
    """Run the command in a forked child, as `python -m` or the shell would."""
    end_with_parent()
    if os.getppid() != parent:
        sys.exit("the process that runs the stages has ended")
    log = os.open(command.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o666)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    os.chdir(command.folder)
    os.environ.update(command.environment)
    words = module_call(command.line)
    if not words:
        os.execv("/bin/sh", ["sh", "-c", command.line])
    module, sys.argv = words[0], words
    sys.modules.pop(module, None)  # runpy warns if the module is imported already
    sys.path[0] = os.getcwd()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def main(pipe: int) -> None:
    """The main function of the warm process and of each child that it forks."""
    status = 0

    def leave() -> None:
        """Exit without Python's own cleanup, which can take longer than a short stage."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)

    atexit.register(leave)  # registered first, so it is called last, after the handlers of libraries
    parent = os.getpid()
    lock = locks.wait_for_entry("warm", "all")  # until an earlier executor's warm process and its children have ended
    command = ForkServer(Connection(pipe)).serve()
    if command is None:
        return
    lock.close()
    try:
        run(command, parent)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
