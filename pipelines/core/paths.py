"""Where every artefact lives. Artefacts are written aside and then renamed, so none is ever half written."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ARTIFACTS = Path("artifacts")  # relative: a stage runs at the root of its checkout, as DVC does


def raw(name: str) -> Path:
    return ARTIFACTS / "raw" / name


def rows(name: str) -> Path:
    return ARTIFACTS / "rows" / name


def vocab(name: str) -> Path:
    return ARTIFACTS / "vocab" / name


def encoded(name: str) -> Path:
    return ARTIFACTS / "encoded" / name


def model(name: str) -> Path:
    return ARTIFACTS / "models" / name


def predictions(name: str) -> Path:
    return ARTIFACTS / "predictions" / name


def metrics(name: str) -> Path:
    return ARTIFACTS / "metrics" / f"{name}.json"


def timings(name: str) -> Path:
    """Latency and speed of a run on this machine. Not a DVC output: dvc.lock does not depend on the machine."""
    return ARTIFACTS / "timings" / f"{name}.json"


def onnx(name: str) -> Path:
    return ARTIFACTS / "onnx" / name


def reports() -> Path:
    return ARTIFACTS / "reports"


def tuning(name: str) -> Path:
    return ARTIFACTS / "tuning" / name


def downloads(corpus: str, edition: str) -> Path:
    """Fetched files, complete or partial. Not a DVC output: a change of code fetches nothing again."""
    return Path("state/downloads") / corpus / edition


def checkpoints(stage: str, name: str) -> Path:
    """Checkpoints of a training that is not complete. Not a DVC output; removed when the run is complete."""
    return Path("state/checkpoints") / stage / name


def frozen_features(stage: str, name: str) -> Path:
    """Outputs of a run's frozen layers. Not a DVC output; removed when the run has trained."""
    return Path("state/frozen") / stage / name


def teacher_outputs(name: str) -> Path:
    """A teacher's outputs for the rows while a compression runs. Not a DVC output."""
    return Path("state/teacher") / name


def lock(stage: str, name: str) -> Path:
    """The lock file of an entry. The process that runs the entry holds it, and its text names that process."""
    return Path("state/locks") / f"{stage}-{name.replace('/', '-')}"


@contextmanager
def fresh_folder(target: Path) -> Iterator[Path]:
    """Yield a new folder. It replaces `target` if the block succeeds; otherwise `target` stays as it was."""
    partial = _beside(target, "partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    old = _beside(target, "old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    partial.rename(target)
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def fresh_file(target: Path) -> Iterator[Path]:
    """Yield a path beside `target`. The file written there replaces `target` if the block succeeds."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = _beside(target, "partial")
    try:
        yield partial
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def _beside(target: Path, suffix: str) -> Path:
    return target.with_name(f".{target.name}.{suffix}")


def size_bytes(folder: Path) -> int:
    """Bytes of every file in `folder`."""
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
