"""Run a scoring job without Prefect: `python -m tests.support.run_job SOURCE TARGET [KILL_AT [WORKERS]]`.

It prints a line for each finished partition. With KILL_AT it kills itself with SIGKILL before the KILL_AT-th time that
it opens, makes, renames or removes a file of TARGET. At its end it writes the number of these times to stderr. With
`stop` for KILL_AT it stops itself with SIGSTOP before it begins, so that it can be traced from there. It has opened
MLflow's store then, whose check of its schema makes more system calls than a small job.
"""

import os
import signal
import sys
from typing import Any

from pipelines.core.stage import one_sentence
from pipelines.scoring import job, manifest
from pipelines.tracking import registry

EVENTS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir"}  # `open` comes before each fsync too


def watch(target: str, kill_at: int) -> list[int]:
    """Count the events of files of the target, and kill this process before one of them."""
    count = [0]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in EVENTS and target in str(arguments[0]):
            count[0] += 1
            if count[0] == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    return count


if __name__ == "__main__":
    source, target, when = sys.argv[1], sys.argv[2], (sys.argv[3:] or ["0"])[0]
    workers = int((sys.argv[4:] or ["1"])[0])
    if when == "stop":
        registry.aliases_of("tiny")
        os.kill(os.getpid(), signal.SIGSTOP)
    events = watch(target, 0 if when == "stop" else int(when))
    with one_sentence("run_job"):
        options = job.Options(max_bad="100%")

        def say(entry: manifest.Entry) -> None:
            print(entry["source"], flush=True)

        outcome = job.run(source, target, "tiny", "champion", options, say, workers)
        print(outcome.sentence())
        print(events[0], file=sys.stderr)
