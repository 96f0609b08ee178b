"""A project of one's own: an empty params.yaml, the graph and small encoders, in git, and in DVC with a remote."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from pipelines.core import params
from pipelines.core.errors import InputError, UsageError, one_line
from pipelines.data import recipes
from pipelines.graph import code_manifest, import_closure, new_entries

FILES = (code_manifest.FILE, ".dvcignore")  # as they are in this checkout
ENCODERS = Path("encoders")
IGNORED = """/.venv
/artifacts/*
/state
__pycache__/
keys.txt
*.key
*.pem
"""
HEAD = "# The params of this project. `bertline new FILE` writes entries for a corpus of your own.\n\n"
LEFT_OUT = ("DVC_", "GIT_")  # variables of a command that runs inside a stage or a hook


def default_remote(folder: Path) -> Path:
    """The folder FOLDER.remote; a new one named after bertline if DVC, whose configuration is ASCII, cannot have it."""
    place = folder.resolve() if folder.name in ("", "..") else folder  # `.` has no name
    if place.name.isascii():
        return place.parent / f"{place.name}.remote"
    names = ("bertline.remote", *(f"bertline-{number}.remote" for number in range(2, 1000)))
    return next(place.parent / name for name in names if not (place.parent / name).exists())


def create(folder: Path, remote: Path) -> Iterator[str]:
    """Make an empty project in `folder`, which is new or empty, and yield a sentence for each step.

    Raises InputError if the folder holds files, or if git or DVC fails; what was made until then stays. Raises
    UsageError for a remote that DVC cannot name, before anything is made.

    Args:
        remote: the folder that `dvc push` writes to; made if it does not exist.
    """
    if folder.exists() and (not folder.is_dir() or any(entry.name != ".git" for entry in folder.iterdir())):
        raise InputError(f"{folder}: not empty; name a new folder")
    root = import_closure.ROOT
    encoders = [root / path for path in recipes.ENCODERS.values()]
    for path in (root / code_manifest.FILE, *encoders):
        if not path.exists():
            raise InputError(f"{path}: missing; bertline init needs the checkout that bertline was installed from")
    place = _place(remote, folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copyfile(root / name, folder / name)
    sections = "".join(f"{section}: {{}}\n" for section in new_entries.SECTIONS)
    (folder / params.FILE).write_text(HEAD + sections, encoding="utf-8")
    (folder / ".gitignore").write_text(IGNORED, encoding="utf-8")
    for path in encoders:
        shutil.copytree(path, folder / ENCODERS / path.name)
    yield f"{folder}: params.yaml without entries, dvc.yaml, {' and '.join(path.name for path in encoders)}"
    remote.mkdir(parents=True, exist_ok=True)
    run = _Run(folder)
    if not (folder / ".git").exists():
        run("git", "init", "--quiet")
    for words in (
        ("init",),
        ("config", "core.analytics", "false"),
        ("remote", "add", "--default", "local", place),
        ("add", str(ENCODERS)),
        ("push",),
    ):
        run("dvc", *words)  # with --quiet an error has no sentence
    run("git", "add", ".")
    yield f"{remote}: the remote of `dvc push` and `dvc pull`, which holds the encoders"


def _place(remote: Path, folder: Path) -> str:
    """The path from the project to its remote. Raises UsageError if DVC cannot write it into its configuration."""
    place = os.path.relpath(remote.resolve(), folder.resolve())  # a clone beside this folder finds it too
    if not place.isascii():
        raise UsageError(
            f"{remote}: DVC can write ASCII letters only, and the path from the project to this remote is {place}; "
            "name another folder by --remote"
        )
    return place


class _Run:
    """Commands in a folder. One that fails raises InputError with its error, or with its last line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(LEFT_OUT)}

    def __call__(self, *command: str) -> None:
        # DVC is in this environment, which a person may use without activating it
        program = (sys.executable, "-m", "dvc") if command[0] == "dvc" else command[:1]
        try:
            subprocess.run(
                [*program, *command[1:]],
                cwd=self.folder,
                env=self.environment,
                capture_output=True,
                text=True,
                check=True,
                timeout=600,
            )
        except FileNotFoundError:
            raise InputError(f"{command[0]}: not installed, or its folder is not in PATH") from None
        except subprocess.SubprocessError as error:
            lines = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
            errors = [line for line in lines if line.startswith("ERROR:")]  # DVC ends with where to ask for help
            why = one_line([*lines, *errors][-1] if lines else error)
            raise InputError(f"{self.folder}: {' '.join(command[:3])}: {why}") from None
