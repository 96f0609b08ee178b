"""Run commands and stages in processes forked from one that has their imports loaded.

Each runs in its own process, which can be killed, with the environment and the folder of the test that starts it.
`python -m` would import torch, transformers and MLflow again, which takes longer than most commands in the tests.
"""

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PRELOADED = [
    "pipelines.compression.compress_entry",
    "pipelines.inference.predictor",
    "transformers.models.bert.modeling_bert",
    "mlflow.pyfunc",
    "flows.promote",
    "mlflow.store.model_registry.sqlalchemy_workspace_store",
    "mlflow.store.tracking.sqlalchemy_workspace_store",
    "onnx",
    "pyarrow.pandas_compat",
    "pipelines.text.encoding.choice",
    "pipelines.text.tokenizers.mecab_wordpiece",
    "ipadic",
    "tests.support.run_job",
]  # without Ray, which reads the environment on import, and ONNX Runtime, whose import starts threads
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(PRELOADED)


class Forked:
    """A forked process that does the same as `python -m MODULE ARGUMENTS`, and its output."""

    def __init__(self, place: Path, words: tuple[str, ...], environment: dict[str, str], leads: bool) -> None:
        self._files = [place / "stdout", place / "stderr"]
        self._kept: list[str] = []
        self.args = words
        self._process = FORKS.Process(
            target=_run, args=(words, os.getcwd(), os.environ | environment, self._files, leads)
        )
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid
        return self._process.pid

    def poll(self) -> int | None:
        """The exit status, or minus the number of the signal that killed it; None while it runs."""
        return self._process.exitcode

    def wait(self, seconds: float = 300) -> int:
        self._process.join(seconds)
        assert self._process.exitcode is not None, f"{self.args} does not end: {self.said()}"
        return self._process.exitcode

    def until(self, true: Callable[[], object], seconds: float = 300) -> None:
        """Wait until `true()` holds; checks often, so that a kill hits the process in the middle of its work."""
        deadline = time.monotonic() + seconds
        while not true():
            assert self.poll() is None or true(), f"{self.args} ended with {self.poll()}: {self.said()}"
            assert time.monotonic() < deadline, f"{self.args} is not there after {seconds} s: {self.said()}"
            time.sleep(0.002)

    def kill(self) -> None:
        self._process.kill()
        self._process.join()

    def kill_all(self) -> None:
        """Kill the process and its group; until it has made a group, it has no children."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            self.kill()

    def printed(self) -> str:
        """The stdout so far."""
        return self._text(0)

    def said(self) -> str:
        """The stderr so far."""
        return self._text(1)

    def _text(self, number: int) -> str:
        file = self._files[number]
        return self._kept[number] if self._kept else file.read_text(errors="replace") if file.exists() else ""

    def end(self) -> None:
        """Kill the process if it still runs; keep its output, whose files will be removed."""
        self.kill()
        self._kept = [self.printed(), self.said()]


def _run(words: tuple[str, ...], folder: str, environment: dict[str, str], files: list[Path], leads: bool) -> None:
    """The child's main function; `leads` makes the child lead a process group, which can be killed as a whole."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as in a terminal, also for tests that run by nohup
    if leads:
        os.setsid()
    for file, number in zip(files, (1, 2), strict=True):
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path.insert(0, folder)
    sys.argv = list(words)
    sys.modules.pop(words[0], None)  # runpy warns if the module is imported already
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)


@contextmanager
def started(*words: str, leads: bool = False, **environment: str) -> Iterator[Forked]:
    """Start a process that runs a module with arguments; it is killed at the end of the block if it still runs."""
    with tempfile.TemporaryDirectory(prefix="bertline-forked-") as place:
        process = Forked(Path(place), words, environment, leads)
        try:
            yield process
        finally:
            process.end()


def run(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run to the end, like subprocess.run with captured output."""
    with started(*words, **environment) as process:
        status = process.wait()
        return subprocess.CompletedProcess(words, status, process.printed(), process.said())
