"""A warm process: it imports what stages import, once, and forks a process for each command.

The executor talks to it over a pipe. A forked child runs its
command as `python -m` would, in a session of its own, with its output in a log file. When the executor ends, in
whatever way, the warm process kills its children and ends too.
"""

import atexit
import ctypes
import fcntl
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

from pipelines.core import paths

IMPORT_SECONDS = 3  # that an executor waits for the warm process, which may import for longer
PR_SET_PDEATHSIG = 1  # of Linux's prctl
SHELL = set('|&;<>()$`\\"*?[]#~=%\n!{}')  # with any of these a command is the shell's


class Command(NamedTuple):
    """The command that a child is to run.

    Attributes:
        modules: the modules that it imports, each as "module" or "module:name"; they are imported before the fork.
        environment: the variables that differ from the executor's environment.
    """

    name: str
    line: str
    folder: str
    log: str
    modules: tuple[str, ...]
    environment: dict[str, str]

    def elsewhere(self, environment: dict[str, str]) -> "Command":
        """The same for another machine, with nothing imported ahead."""
        return Command(self.name, self.line, self.folder, self.log, (), environment)


class Started(NamedTuple):
    name: str
    pid: int


class Ended(NamedTuple):
    """A child's end; `status` is its exit status, or the negative number of the signal that killed it."""

    name: str
    status: int


class Warm:
    """The executor's side. Leaving the block kills the children that still run.

    There is one warm process at a time in a `folder`.
    """

    def __init__(self, ahead: Iterable[str] = (), folder: Path = Path()) -> None:
        self._ahead, self._folder, self._groups = tuple(ahead), folder, dict[str, int]()
        self._asked: set[str] = set()  # commands that were sent, of whose start nothing is known yet
        self.pipe: Any = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Warm":
        return self

    def __exit__(self, *_: object) -> None:
        self._end(signal.SIGINT, 3)
        self._end(signal.SIGKILL, 1)
        if self._process:
            if self._asked:  # it may have started one just now, which alone it knows
                with suppress(OSError):
                    self.pipe.send(None)
                with suppress(subprocess.TimeoutExpired):  # it imports, and starts nothing meanwhile
                    self._process.wait(IMPORT_SECONDS)
                self._end(signal.SIGKILL, 1)
            self._process.kill()
            self._process.wait()
            self.pipe.close()

    def start(self, command: Command) -> None:
        """Have `command` run in a new child. The first one starts the warm process."""
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
        self.pipe.send(command)
        self._asked.add(command.name)

    @staticmethod
    def _code() -> str:
        """The PYTHONPATH that leads to the code, for a process that does not begin there."""
        return os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH", "")]))

    def events(self, seconds: float) -> list[Started | Ended]:
        """The events that have happened, after at most `seconds`. Raises EOFError if the warm process has died."""
        events: list[Started | Ended] = []
        while self.pipe is not None and self.pipe.poll(0 if events else seconds):
            event = self.pipe.recv()
            events.append(event)
            if isinstance(event, Started):
                self._groups[event.name] = event.pid
                self._asked.discard(event.name)
            else:
                del self._groups[event.name]
        return events

    def _end(self, by: signal.Signals, seconds: float) -> None:
        """Send a signal to every child, and wait until they have ended, but no longer than `seconds`."""
        with suppress(EOFError, OSError):
            self.events(0)
        for pid in self._groups.values():
            kill_group(pid, by)
        until = time.monotonic() + seconds
        with suppress(EOFError, OSError):
            while self._groups and (left := until - time.monotonic()) > 0:
                self.events(left)


def kill_group(pid: int, by: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, by)


class Server:
    """The warm process."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.children: dict[int, str] = {}
        self.imported: set[str] = set()
        self.waiting: list[Command] = []
        self.ahead = deque[str](pipe.recv())
        self.woken, self.wakes = os.pipe()
        os.set_blocking(self.wakes, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler nothing is written to `wakes`
        signal.set_wakeup_fd(self.wakes, warn_on_full_buffer=False)

    def serve(self) -> Command | None:
        """Import and fork; returns the command in a child, and None in the warm process when the executor has gone."""
        while True:
            for command in self.waiting:
                if self.imported.issuperset(command.modules) and self._fork(command):
                    return command
            self.waiting = [each for each in self.waiting if each.name not in self.children.values()]
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
        """Import one module that a command waits for, or else one that a later command will."""
        wanted = (module for command in self.waiting for module in command.modules if module not in self.imported)
        module = next(wanted, "") or self.ahead.popleft()
        self.imported.add(module)
        with suppress(Exception):  # a child meets the error where it imports the module, and says so
            package, _, name = module.partition(":")
            found = importlib.import_module(package)
            if name:
                getattr(found, name)  # transformers imports a class's module when it is asked for the class

    def _fork(self, command: Command) -> bool:
        """Fork a child that will run the command; return whether this process is the child."""
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
                kill_group(pid, signal.SIGKILL)  # what a failed stage has started and left
            self.pipe.send(Ended(name, code))


def module_call(line: str) -> list[str]:
    """The module and its arguments of a plain `python -m MODULE ...`; nothing for a command that is the shell's."""
    words = shlex.split(line) if not SHELL & set(line) else []
    return words[2:] if words[:2] == ["python", "-m"] else []


def end_with_parent() -> None:
    """Let the system kill this process when its parent has ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def run(command: Command, parent: int) -> None:
    """In a child: what `python -m`, or else the shell, does with the command."""
    end_with_parent()
    if os.getppid() != parent:
        sys.exit("the warm process has ended")
    log = os.open(command.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    os.chdir(command.folder)
    os.environ.update(command.environment)
    words = module_call(command.line)
    if not words:
        os.execv("/bin/sh", ["sh", "-c", command.line])
    module, sys.argv = words[0], words
    sys.modules.pop(module, None)  # runpy warns of a module that is there already
    sys.path[0] = os.getcwd()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _alone() -> Any:
    """Wait until the warm process of an earlier executor, and so its children, have ended."""
    place = paths.lock("warm", "all")
    place.parent.mkdir(parents=True, exist_ok=True)
    file = place.open("a", encoding="utf-8")
    fcntl.lockf(file, fcntl.LOCK_EX)
    return file


def main(pipe: int) -> None:
    """The warm process, and every child of it, from its beginning to its end."""
    status = 0

    def leave() -> None:
        """End without freeing piece by piece what the system frees at once; that takes longer than many a stage."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)

    atexit.register(leave)  # the first that is registered is called last, after those of all libraries
    held, parent = _alone(), os.getpid()
    command = Server(Connection(pipe)).serve()
    if command is None:
        return
    held.close()
    try:
        run(command, parent)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
