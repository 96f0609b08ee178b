"""Score files by the job that `bertline score` runs."""

from pathlib import Path

from bertline import loaded_model
from pipelines.core.errors import UsageError


def score(model: str, source: Path | str, target: Path | str, prefix: str) -> int:
    """See `bertline.score`."""
    from pipelines.entries.parts.prefix import checked
    from pipelines.scoring import job_folders

    checked(prefix)
    is_remote = job_folders.is_remote(source) or job_folders.is_remote(target)
    if not is_remote and Path(source).suffix.lower() not in (".csv", ".jsonl") and not Path(source).is_dir():
        from pipelines.scoring import batch_scoring

        return batch_scoring.score(Path(source), Path(target), loaded_model.version(model), prefix)
    from pipelines.scoring import job
    from pipelines.tracking import registry

    name, _, alias = model.partition("@")
    if alias.isdecimal():
        raise UsageError(f"{model}: a folder, CSV or JSONL is scored by NAME or NAME@ALIAS, and keeps that version")
    outcome = job.run(source, target, name, alias or registry.CHAMPION, job.Options(prefix))
    return int(outcome.summary["scored"])
