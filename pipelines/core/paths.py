"""The path of every artefact, and its writing: aside under a lock, then renamed, so that none is ever incomplete."""

import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pipelines.core.errors import BeingWrittenError, InputError, shown

ARTIFACTS = Path("artifacts")  # relative: a stage runs at the root of its checkout, as DVC does
CODE = ARTIFACTS / "code"
DVC_LOCK = Path("dvc.lock")
NAMED_BY_DIGEST = re.compile("[0-9a-f]{30,64}")  # DVC names a file by the last 30 digits, below a folder of the first 2


def below(folder: Path, name: str) -> Path:
    """`folder / name`, for a name from an untrusted source: an archive, a model's file or a registry.

    Raises InputError if the path is not below `folder`: an absolute name, `..`, or a link that leads elsewhere.
    """
    place = folder / name
    try:
        inside = place.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # a cycle of links, or a NUL
        inside = False
    if not inside or "\0" in name:
        raise InputError(f"{folder}: {shown(name)} lies outside this folder; the name may be an attack")
    return place


def copy(folder: Path, name: str, target: Path) -> None:
    """Copy a file of `folder`, which a stranger may have made, to the path `target`.

    Raises InputError if it is a link to a file elsewhere, unless a digest is the name of that one: the caches of DVC
    and of Hugging Face's hub name files so, and link them.
    """
    place = (folder / name).resolve()
    if not place.is_relative_to(folder.resolve()) and not NAMED_BY_DIGEST.fullmatch(place.name):
        raise InputError(f"{folder / name}: a link to a file outside of this folder; put the file in its place")
    shutil.copyfile(place, target)


def is_hidden(name: str) -> bool:
    """Return whether a file's name says that it is no data, as in Spark and Hive."""
    return name.startswith((".", "_"))


def raw(name: str) -> Path:
    return ARTIFACTS / "raw" / name


def rows(name: str) -> Path:
    return ARTIFACTS / "rows" / name


def vocab(name: str) -> Path:
    return ARTIFACTS / "vocab" / name


def encoded(name: str) -> Path:
    return ARTIFACTS / "encoded" / name


def scored_rows(encoded: Path, split: str) -> Path:
    """The readable rows of a split, beside its encoded rows; a training reads them to score its model."""
    return encoded / "rows" / f"{split}.parquet"


def model(name: str) -> Path:
    return ARTIFACTS / "models" / name


def predictions(name: str) -> Path:
    return ARTIFACTS / "predictions" / name


def metrics(name: str) -> Path:
    """All measurements of a run's predictions, or of a pretraining."""
    return ARTIFACTS / "metrics" / f"{name}.json"


def scores(name: str) -> Path:
    """The few numbers of a run that `dvc metrics show` and `dvc exp show` compare."""
    return ARTIFACTS / "scores" / f"{name}.json"


def timings(name: str) -> Path:
    """Latency and speed of a run on this machine. Not a DVC output: dvc.lock does not depend on the machine."""
    return ARTIFACTS / "timings" / f"{name}.json"


def drift(job: str) -> Path:
    """The distances of a job's scored windows from the model's profile. Not a DVC output."""
    return ARTIFACTS / "drift" / job


def onnx(name: str) -> Path:
    return ARTIFACTS / "onnx" / name


def reports() -> Path:
    return ARTIFACTS / "reports"


def compression(name: str) -> Path:
    """All trials of a search for a smaller model. Not a DVC output."""
    return ARTIFACTS / "compression" / name


def tuning(name: str) -> Path:
    return ARTIFACTS / "tuning" / name


def downloads(corpus: str, edition: str) -> Path:
    """Fetched files, complete or partial. Not a DVC output, so a change of code does not fetch them again."""
    return Path("state/downloads") / corpus / edition


def checkpoints(stage: str, name: str) -> Path:
    """Checkpoints of an unfinished training. Not a DVC output; removed when the run is complete."""
    return Path("state/checkpoints") / stage / name


def frozen_features(stage: str, name: str) -> Path:
    """Outputs of a run's frozen layers. Not a DVC output; removed when the run has trained."""
    return Path("state/frozen") / stage / name


def teacher_outputs(name: str) -> Path:
    """A teacher's outputs for the training rows, kept while a compression runs. Not a DVC output."""
    return Path("state/teacher") / name


def lock(stage: str, name: str) -> Path:
    """The lock file of an entry. The process that runs the entry holds it, and its text names that process."""
    return Path("state/locks") / f"{stage}-{name.replace('/', '-')}"


@contextmanager
def fresh_folder(target: Path) -> Iterator[Path]:
    """Yield a new folder. It replaces `target` if the block succeeds; otherwise `target` stays as it was.

    Raises InputError while another process writes `target`.
    """
    partial, old = _beside(target, "partial"), _beside(target, "old")
    partial.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target, partial, partial.mkdir, os.O_RDONLY):
        if old.exists() and not target.exists():  # a process was killed between the two renames below
            old.rename(target)
        _empty(partial)
        try:
            yield partial
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        _remove(old)
        if target.exists():
            target.rename(old)
        partial.rename(target)
        _remove(old)


def _remove(folder: Path) -> None:
    """Remove a folder; of a link to one, the link."""
    if folder.is_symlink():
        folder.unlink()
    else:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def fresh_file(target: Path) -> Iterator[Path]:
    """Yield a path beside `target`. The file written there replaces `target` if the block succeeds.

    Raises InputError while another process writes `target`.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = _beside(target, "partial")
    with _locked(target, partial, partial.touch, os.O_RDWR):
        os.truncate(partial, 0)
        try:
            yield partial
            os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)


@contextmanager
def _locked(target: Path, partial: Path, create: Callable[[], None], access: int) -> Iterator[None]:
    """Keep the kernel's lock on `partial`, which `create` creates. The lock ends with its process.

    NFS locks a file only for a process that may write it (flock(2)); a folder cannot be opened to write.
    """
    while (descriptor := _try_lock(target, partial, create, access)) is None:
        pass
    try:
        yield
    finally:
        os.close(descriptor)


def _try_lock(target: Path, partial: Path, create: Callable[[], None], access: int) -> int | None:
    """A descriptor with the lock; None if `partial` was removed or replaced meanwhile: its writer has ended."""
    with suppress(FileExistsError):
        create()
    try:
        descriptor = os.open(partial, access)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(partial)):
            return descriptor
    except BlockingIOError:
        os.close(descriptor)
        raise BeingWrittenError(target) from None
    except FileNotFoundError:
        pass
    os.close(descriptor)
    return None


def _empty(folder: Path) -> None:
    for inner in folder.iterdir():
        if inner.is_dir() and not inner.is_symlink():
            shutil.rmtree(inner)
        else:
            inner.unlink()


def _beside(target: Path, suffix: str) -> Path:
    return target.with_name(f".{target.name}.{suffix}")


def size_bytes(folder: Path) -> int:
    """Bytes of every file in `folder`."""
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
