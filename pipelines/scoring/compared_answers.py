"""The answers of a job by a cascade that its champion gave too: too many that differ end the job."""

from collections.abc import Iterable
from pathlib import Path

from pipelines.core.errors import InputError
from pipelines.inference.cascade import Composition
from pipelines.inference.cascade_watch import CascadeWatch
from pipelines.inference.runtimes import CASCADE_FILE
from pipelines.scoring import manifest
from pipelines.scoring.job_record import Job
from pipelines.scoring.manifest import Entry


class ComparedAnswers:
    """The compared rows of a job's partitions, those of earlier runs among them; none if its model is no cascade."""

    def __init__(self, job: Job, folder: Path, entries: Iterable[Entry]) -> None:
        """Take the `entries` of finished partitions into account; `folder` is the model's. Raises as `add`."""
        self._job = job
        self._watch = CascadeWatch(Composition.read(folder)) if (folder / CASCADE_FILE).is_file() else None
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Add a partition. Raises InputError if the cascade is shown not to keep its agreement."""
        if not self._watch:
            return
        self._watch.compared.count(*(entry[manifest.MEASURED].get(name, 0) for name in manifest.COMPARED))
        if cause := self._watch.broken():
            name, champion = self._job.model, self._watch.composition.champion
            raise InputError(
                f"{name} version {self._job.version}, a cascade, {cause}; what is scored stays, and no more is: "
                f"bertline rollback {name} --to {champion}, then score into another folder"
            )
