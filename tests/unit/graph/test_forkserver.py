"""The warm process, as its executor sees it."""

import os
import time
from pathlib import Path

import psutil
import pytest

from pipelines.graph import forkserver
from tests.support import endings


@pytest.mark.slow
@pytest.mark.parametrize("importing", [False, True])
def test_nothing_outlives_an_executor_that_has_not_heard_of_it_yet(checkout: Path, importing: bool) -> None:
    """A command that was started just now, and what that has started, when Ctrl-C ends the executor."""
    (checkout / "slow_module.py").write_text("import time; time.sleep(30)" if importing else "")
    line = f"echo $$ > began; sleep 98 & sleep 99; echo {os.getpid()}"
    pool = forkserver.WarmProcess()
    with pool:
        pool.start(forkserver.Command("a", line, str(checkout), "log", (), {"PYTHONPATH": str(checkout)}))
        until = time.monotonic() + 60
        while not (Path("began").is_file() and Path("began").read_text().strip()) and time.monotonic() < until:
            time.sleep(0.01)
        if importing:
            pool.start(forkserver.Command("b", "python -m slow_module", str(checkout), "b.log", ("slow_module",), {}))
            time.sleep(0.2)
        shell = psutil.Process(int(Path("began").read_text()))
        started = [shell, *shell.children(recursive=True)]
        assert len(started) > 1
    assert endings.alive_after(started, 5) == []
    assert Path("log").stat().st_mode & 0o111 == 0, "a log is no program"


def test_a_warm_process_that_died_with_commands_unread_is_its_end(checkout: Path) -> None:
    (checkout / "slow_module.py").write_text("import time; time.sleep(30)")
    slow = forkserver.Command("a", "python -m slow_module", str(checkout), "log", ("slow_module",), {})
    with forkserver.WarmProcess(["slow_module"], checkout) as pool:
        before = set(psutil.Process().children())
        pool.start(slow)
        (warm,) = set(psutil.Process().children()) - before
        time.sleep(1)  # it imports, and reads nothing meanwhile
        for name in ("b", "c"):
            pool.start(slow._replace(name=name))
        warm.kill()
        warm.wait()
        pool.start(slow._replace(name="d"))
        with pytest.raises(EOFError):
            pool.events(9)
