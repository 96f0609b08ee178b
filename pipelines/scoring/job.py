"""A scoring job: every partition of a folder scored exactly once, whatever is killed, promoted or changed meanwhile.

A partition is done when the manifest names it. All before that is written aside, or written again.
"""

import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.core import json_file, provenance
from pipelines.core.errors import InputError, listed
from pipelines.core.progress import progress, say
from pipelines.core.task import Task
from pipelines.inference import encoder_states
from pipelines.inference.receipt_keys import ReceiptKeys
from pipelines.scoring import (
    earlier_answers,
    job_folders,
    job_record,
    manifest,
    partition_scoring,
    partitions,
    scorers,
    states_files,
)
from pipelines.scoring.compared_answers import ComparedAnswers
from pipelines.scoring.job_folders import Folder
from pipelines.scoring.job_record import Job
from pipelines.scoring.manifest import Entry
from pipelines.scoring.partitions import Partition
from pipelines.scoring.quarantine import Limit
from pipelines.scoring.scoring_work import Work
from pipelines.tracking import registry

MAX_BAD = "1%"
LONGEST = 1_000_000  # characters of an input: a model reads some hundred tokens of it


@dataclass(frozen=True)
class Options:
    """The options of a job. `prefix` and `longest` decide on the answers; a job keeps those that it began with.

    `since` is the folder of an earlier job, whose answers are taken over for rows that it has answered. `receipts` is a
    file of keys; with it each answer has a receipt, which names `commit`, that of the code that runs. `states`: the
    job keeps encoder states, from which a version with another head answers without the encoder.
    """

    prefix: str = ""
    max_bad: str = MAX_BAD
    longest: int = LONGEST
    since: str = ""
    receipts: str = ""
    commit: str = ""
    states: bool = False


@dataclass(frozen=True)
class Outcome:
    """The end of a job: the summary in its manifest, and the number of partitions that this run has scored."""

    target: str
    summary: dict[str, Any]
    scored_now: int

    def sentence(self) -> str:
        """The outcome in words."""
        done = self.summary
        model = f"{done['model']} version {done['version']}"
        rows = f"{done['scored']:,} rows in {done['partitions']:,} partitions"
        bad = f", {done['quarantined']:,} bad rows in {self.target}/_quarantine" if done["quarantined"] else ""
        if not self.scored_now:
            return f"{self.target}: already finished, nothing to do: {rows} scored by {model}{bad}"
        over = manifest.origins(done)
        return f"{rows} scored by {model} into {self.target}{over}{bad}"


OnPartition = Callable[[Entry], None]


def run(
    source: Path | str,
    target: Path | str,
    model: str,
    alias: str,
    options: Options,
    on_partition: OnPartition | None = None,
    workers: int = 1,
) -> Outcome:
    """Score every partition of `source` into the folder `target`, or go on where an earlier run of the job ended.

    Args:
        source: a folder or a file, of this machine or s3://; so is `target`, always a folder.
        alias: the version of a new job; a job that has begun keeps its version.
        on_partition: called with the entry of each partition that this run finishes.
        workers: processes that score partitions side by side, and share the threads of this one. On a cluster
            (RAY_ADDRESS) each has a CPU, and 1 means as many as there are CPUs.

    Raises InputError if the job is cancelled or another's, another process runs it, too many rows are bad, its input
    changed, or its model is a cascade that answers too many rows otherwise than its champion.
    """
    with job_folders.opened(source) as rows, job_folders.opened(target) as answers:
        return _run(rows, answers, model, alias, options, on_partition, workers)


def _run(
    source: Folder,
    target: Folder,
    model: str,
    alias: str,
    options: Options,
    on_partition: OnPartition | None,
    workers: int,
) -> Outcome:
    files, limit = partitions.among(source), Limit(options.max_bad)
    job_record.require_sizes(files, target)
    target.update()
    job = job_record.read(target.path)
    if not job:
        job_record.require_own_place(source, target)
    with target.sole_writer():
        shutil.rmtree(target.aside, ignore_errors=True)
        target.aside.mkdir()
        target.forget_cancel()
        target.update()
        job = job_record.read(target.path)  # another process may have begun it meanwhile
        if job:
            folder = _resumed(job, target, source, model, alias, options)
        else:
            version = registry.get(model, alias)
            folder = registry.folder(version)
            job = begin(source, files, target, version, folder, options, limit, workers)
        outcome = finish(job, files, target, folder, workers, on_partition)
        shutil.rmtree(target.aside, ignore_errors=True)
    return outcome


def _resumed(job: Job, target: Folder, source: Folder, model: str, alias: str, options: Options) -> Path:
    """The model's folder of a job that has begun. Raises InputError if it is another job, or the model has changed."""
    _require_same(job, target, source, model, options)
    if job.receipts and job.commit != options.commit and not (target.path / manifest.SUMMARY).is_file():
        raise InputError(
            f"{target}: its receipts name the commit {job.commit or '(none)'}, and the code is of "
            f"{options.commit or '(none)'} now; check that commit out again, or score into another folder"
        )
    version = job_record.version(job, target)
    folder = registry.folder(version)
    _require_unchanged_model(job, version, folder, alias)
    return folder


def begin(
    source: Folder, files: list[Partition], target: Folder, version: registry.Version, folder: Path,
    options: Options, limit: Limit, workers: int = 1,
) -> Job:  # fmt: skip
    """Check all rows, then write the job's record; from here on the job has its version, which is in `folder`."""
    since, receipts = (job_folders.full_name(name) if name else "" for name in (options.since, options.receipts))
    key = ReceiptKeys.read(Path(receipts)).current.id if receipts else ""
    if since:
        with job_folders.opened(since) as earlier:
            earlier_answers.finished(earlier)
    task = Task.load(folder)
    states = encoder_states.digest(folder) if options.states else ""
    added = partition_scoring.added(task.kind, options.prefix, bool(receipts))
    with progress("checking", len(files), "partitions") as advance:
        planned = job_record.plan(files, task, options.longest, added, advance)
    job_record.require_few_bad(source, planned, limit)
    if states:
        states_files.require_sizes(planned, encoder_states.width(folder), target)
    job = Job(
        format=job_record.FORMAT,
        source=job_folders.full_name(str(source)),
        model=version.name,
        version=version.version,
        model_digest=provenance.content_digest(folder),
        prefix=options.prefix,
        longest=options.longest,
        partitions=planned,
        since=since,
        workers=workers,
        begun=manifest.now(),
        receipts=receipts,
        receipt_key=key,
        commit=options.commit if receipts else "",
        states=states,
    )
    job.write(target)
    return job


def _require_same(job: Job, target: Folder, source: Folder, model: str, options: Options) -> None:
    """Raise InputError if the job in `target` is another one."""
    current = {
        "source": job_folders.full_name(str(source)),
        "model": model,
        "prefix": options.prefix,
        "longest": options.longest,
    }
    for name in ("since", "receipts"):
        if path := getattr(options, name):
            current[name] = job_folders.full_name(path)
    if options.states and not job.states:
        raise InputError(f"{target}: its job began without --states; name another folder")
    for name, value in current.items():
        began = getattr(job, name)
        if began != value:
            raise InputError(f"{target}: its job began with {name} {began!r}, not {value!r}; name another folder")


def _require_unchanged_model(job: Job, version: registry.Version, folder: Path, alias: str) -> None:
    """Raise InputError if the model's files are others than when the job began; say so if the champion is another."""
    if provenance.content_digest(folder) != job.model_digest:
        raise InputError(f"{version}: its files are others than when the job began; score into another folder")
    try:
        now = registry.get(job.model, alias)
    except InputError:  # no version has the alias now
        return
    if now.version != version.version:
        say(f"the job began on {version} and ends on it; version {now.version} is {alias} now: score it elsewhere")


def finish(
    job: Job,
    files: list[Partition],
    target: Folder,
    folder: Path,
    workers: int = 1,
    on_partition: OnPartition | None = None,
) -> Outcome:
    """Score what the manifest does not name yet, then write the manifest of the whole job."""
    entries = manifest.read(target.path)
    done = {entry["source"] for entry in entries.values() if entry["kind"] == manifest.PARTITION}
    with progress("comparing", len(job.partitions), "partitions") as advance:
        others = job_record.changed(job, files, done, advance)
    todo = [one for one in job.partitions if one.name not in done and one.name not in others]
    if todo:
        work = Work(job, folder, files[0].source, target, todo, job.signer())
        new_entries, changed = _scored(work, workers, ComparedAnswers(job, folder, entries.values()), on_partition)
        entries |= new_entries
        others |= dict.fromkeys(changed, "changed")
    if others:
        names = listed([f"{name} ({what})" for name, what in others.items()])
        scored = sum(entry["kind"] == manifest.PARTITION for entry in entries.values())
        raise InputError(
            f"{job.source}: {len(others):,} partitions are not as they were when the job began: {names}; nothing of "
            f"them was published now; {scored:,} of {len(job.partitions):,} partitions are scored; "
            "put them back, or score into another folder"
        )
    summary = manifest.summary(entries.values())
    path = target.path / manifest.SUMMARY
    if not path.is_file() or json_file.mapping(path) != summary:
        target.write_json(manifest.SUMMARY, summary)
    return Outcome(str(target), summary, len(todo))


def _scored(
    work: Work, workers: int, compared: ComparedAnswers, on_partition: OnPartition | None
) -> tuple[dict[str, Entry], list[str]]:
    """Score partitions, publish each and name it in the manifest.

    Returns the entries, and the names of the partitions that changed meanwhile.
    """
    numbers = {one.name: number for number, one in enumerate(work.job.partitions, start=1)}
    entries, changed = dict[str, Entry](), list[str]()
    total = sum(one.rows for one in work.job.partitions)
    before = total - sum(one.rows for one in work.todo)
    with progress("scoring", total, "rows", before) as advance:

        def advanced(rows: int, note: str) -> None:
            job_record.require_not_cancelled(work.target)
            advance(before + rows, note)

        with closing(scorers.scored(work, workers, advanced)) as results:
            for one, result in results:
                if not result:
                    changed.append(one.name)
                    continue
                name = f"{numbers[one.name]:06d}"
                result.publish(work.target)
                manifest.write(work.target, name, result.entry)
                entries[name] = result.entry
                if on_partition:
                    on_partition(result.entry)
                compared.add(result.entry)
    return entries, changed
