"""Run stages in a folder with its own params.yaml, one after the other, each forked from a warm process."""

import shlex
from pathlib import Path

from pipelines.core.errors import InputError
from pipelines.core.stage import unmarked
from pipelines.graph import code_manifest, code_snapshot, import_closure
from pipelines.graph.executor import log_of
from pipelines.graph.forkserver import Command, Ended, WarmProcess
from pipelines.graph.run_display import last_lines

TICK_SECONDS = 60  # of one wait for an event; waits repeat until the stage ends


class StageRunner:
    """Runs stages in the folder `place`. Leaving the block ends the running stage."""

    def __init__(self, place: Path) -> None:
        self.place = place.resolve()
        self.warm = WarmProcess(folder=self.place)

    def __enter__(self) -> "StageRunner":
        return self

    def __exit__(self, *error: object) -> None:
        self.warm.__exit__(*error)

    def run(self, stage: str, key: str) -> None:
        """Run an entry of a stage. If it fails, raises InputError with the last line that the stage printed."""
        name, files = f"{stage}@{key}", code_manifest.stages()[stage].files
        log = self.place / log_of(name)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.unlink(missing_ok=True)
        line = f"python -m pipelines.stages.{stage} {shlex.quote(key)}"
        modules = code_snapshot.ahead(sorted(files), import_closure.ROOT)
        self.warm.start(Command(name, line, str(self.place), str(log), modules, {}))
        if self._status():
            lines = last_lines(log)
            raise InputError(unmarked(lines[-1]) if lines else f"{name} failed, and printed nothing")

    def _status(self) -> int:
        try:
            while True:
                for event in self.warm.events(TICK_SECONDS):
                    if isinstance(event, Ended):
                        return event.status
        except EOFError:
            self.warm.__exit__()
            self.warm = WarmProcess(folder=self.place)  # for the next stage
            raise InputError("the process that runs the stages was killed, and the stage with it; run again") from None
