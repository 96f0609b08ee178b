"""Checks of this machine and checkout, a function each: what was found, and the command that mends it."""

import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

OLDEST, TOO_NEW = (3, 11), (3, 15)  # Python: pyproject.toml
LOCKS = ("requirements.lock", "requirements-cuda.lock")
GB = 1e9
NO_DISK, LITTLE_DISK = 1 * GB, 5 * GB
NO_MEMORY, LITTLE_MEMORY = 1 * GB, 3 * GB
JAPANESE = "日本語"  # a text that each dictionary must cut


@dataclass(frozen=True)
class Finding:
    """The result of one check; `mend` is the command, or what to do, if it is not ok."""

    check: str
    state: Literal["ok", "warning", "problem"]
    says: str
    mend: str = ""


def python(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    shown = ".".join(map(str, version))
    if OLDEST <= version[:2] < TOO_NEW:
        return Finding("python", "ok", shown)
    return Finding("python", "problem", f"{shown}; 3.11 to 3.14 are supported", "make install PYTHON=python3.12")


def pins(lock_texts: Sequence[str], installed: Callable[[str], str]) -> Finding:
    """Compare the locks with the installed packages, whose versions `installed` gives."""
    from packaging.requirements import Requirement

    if not lock_texts:
        return Finding("pins", "ok", "not checked: this installation has no locks beside it")
    wrong, count = [], 0
    for line in "\n".join(lock_texts).splitlines():
        if not line.strip() or line.startswith(("#", "-")):
            continue
        pin = Requirement(line)
        if pin.marker and not pin.marker.evaluate():
            continue
        count += 1
        try:
            version = installed(pin.name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{pin.name} is missing")
            continue
        if not pin.specifier.contains(version, prereleases=True):
            wrong.append(f"{pin.name} is {version}, not {pin.specifier}")
    return _about("pins", wrong, f"{count} packages are as in the locks", "rm -f .venv/.installed && make install")


def unmet(distributions: Iterable[metadata.Distribution]) -> Finding:
    """Needs of installed packages that are missing or have another version, as `uv pip check` reports."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    known = {canonicalize_name(one.name): one for one in distributions if one.name}
    wrong = []
    for one in known.values():
        for line in one.requires or ():
            need = Requirement(line)
            if need.marker and not need.marker.evaluate({"extra": ""}):
                continue
            there = known.get(canonicalize_name(need.name))
            if there is None:
                wrong.append(f"{one.name} needs {need.name}, which is missing")
            elif not need.specifier.contains(there.version, prereleases=True):
                wrong.append(f"{one.name} needs {need.name}{need.specifier}, not {there.version}")
    return _about(
        "needs", wrong, f"{len(known)} packages have what they need", "rm -f .venv/.installed && make install"
    )


def port(name: str, number: int, ours: bool, mend: str) -> Finding:
    """Check that a port of 127.0.0.1 is free, or taken by our own server."""
    if ours:
        return Finding(f"port {number}", "ok", f"our {name} listens there")
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind(("127.0.0.1", number))
        except OSError:
            return Finding(f"port {number}", "warning", f"another program listens where {name} would", mend)
    return Finding(f"port {number}", "ok", f"free for {name}")


def disk(free: int, none: float = NO_DISK, little: float = LITTLE_DISK) -> Finding:
    says = f"{free / GB:.1f} GB free"
    mend = "dvc gc --workspace  # removes what no current stage has written; `bertline status` shows the folders"
    return _by_limits("disk", free, none, little, says, mend)


def memory(available: float, none: float = NO_MEMORY, little: float = LITTLE_MEMORY) -> Finding:
    mend = "bertline run --jobs 1  # or set resources.memory_gb in params.yaml"
    return _by_limits("memory", available, none, little, f"{available / GB:.1f} GB available", mend)


def cores(count: int) -> Finding:
    says = f"{count} core{'' if count == 1 else 's'} for this process"
    return (
        Finding("cores", "warning", says, "give this process a second core")
        if count < 2
        else Finding("cores", "ok", says)
    )


def gpu(cards: list[str], torch: str) -> Finding:
    """Check that a GPU of this machine can be used by the installed build of torch."""
    if not cards:
        return Finding("gpu", "ok", f"none; torch {torch} computes on the CPU")
    if "+cpu" in torch:
        return Finding(
            "gpu", "warning", f"{', '.join(cards)}, but torch {torch} cannot use it", "make install TORCH=cuda"
        )
    return Finding("gpu", "ok", ", ".join(cards))


def dictionary(name: str, words: Callable[[str], object]) -> Finding:
    """Check that MeCab opens a dictionary and cuts a text with it."""
    try:
        words(JAPANESE)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        return Finding(f"dictionary {name}", "problem", f"{type(error).__name__}: {error}".split("\n")[0],
                       "rm -f .venv/.installed && make install")  # fmt: skip
    return Finding(f"dictionary {name}", "ok", "cuts Japanese text")


def mirror(value: str) -> Finding:
    if not value:
        return Finding("mirror", "ok", "BERTLINE_MIRROR is not set: corpora come from their official addresses")
    if "://" in value and not value.startswith("file://"):
        return Finding("mirror", "ok", f"corpora come from {value}; not called")
    if not Path(value.removeprefix("file://")).is_dir():
        return Finding("mirror", "problem", f"BERTLINE_MIRROR={value}: no such folder", "unset BERTLINE_MIRROR")
    return Finding("mirror", "ok", f"corpora come from {value}")


def remote(name: str, url: str, default: bool) -> Finding:
    """Check that a DVC remote in a folder is there; one behind an address is not called."""
    check = f"remote {name}"
    if "://" in url:
        return Finding(check, "ok", f"{url}{', the default' if default else ''}; not called")
    if not Path(url).is_dir():
        state: Literal["warning", "problem"] = "problem" if default else "warning"
        mend = f"dvc remote modify --local {shlex.quote(name)} url FOLDER  # where it lies here; of a new remote: "
        return Finding(check, state, f"{url}: no such folder", f"{mend}mkdir -p {shlex.quote(url)}")
    return Finding(check, "ok", f"{url}{', the default' if default else ''}")


def server(name: str, recorded: bool, answers: bool, mend: str = "bertline down && bertline up") -> Finding:
    """Check that a server that was started, or named in the environment, answers."""
    if not recorded:
        return Finding(name, "ok", "not started")
    return Finding(name, "ok", "answers") if answers else Finding(name, "problem", "does not answer", mend)


def worker(recorded: bool, runs: bool) -> Finding:
    """Check that the worker that was started still runs: without it nothing scheduled runs, and no server says so."""
    if not recorded:
        return Finding("worker", "ok", "not started")
    if runs:
        return Finding("worker", "ok", "runs")
    return Finding("worker", "problem", "has ended, so scheduled runs wait; see state/logs/worker.log", "bertline up")


def encoding(names: Mapping[str, str]) -> Finding:
    """Check that file names and output are UTF-8."""
    wrong = [
        f"{what} is {name}" for what, name in names.items() if name.lower().replace("-", "") not in ("utf8", "utf_8")
    ]
    return _about("locale", wrong, "UTF-8", "export LC_ALL=C.UTF-8 PYTHONUTF8=1")


def git(folder: Path) -> Finding:
    """Check that the checkout is a git repository without edits, so that a version names the commit it was made by."""
    command, english = ["git", "-C", str(folder), "status", "--porcelain"], os.environ | {"LC_ALL": "C"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30, env=english)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("git", "problem", f"git does not run: {error}", "apt-get install git")
    if "dubious ownership" in done.stderr:
        trust = f"git config --global --add safe.directory {shlex.quote(str(folder.resolve()))}"
        return Finding("git", "warning", "git refuses this folder, which another user owns", trust)
    if done.returncode and (commit := os.environ.get("BERTLINE_COMMIT")):
        return Finding("git", "ok", f"no git repository; this image was made of commit {commit}")
    if done.returncode:
        return Finding(
            "git",
            "warning",
            "no git repository: versions will not name a commit",
            "git init && git add . && git commit",
        )
    edits = done.stdout.splitlines()
    if edits:
        return Finding(
            "git", "warning", f"{len(edits)} files differ from the commit, such as {edits[0][3:]}", "git status"
        )
    return Finding("git", "ok", "no edits")


def entries(check: Callable[[], object]) -> Finding:
    """Check that params.yaml is well-formed."""
    try:
        check()
    except (ValueError, OSError) as error:
        return Finding("params.yaml", "problem", str(error).split("\n")[0], "bertline check")
    return Finding("params.yaml", "ok", "well-formed")


def cards() -> list[str]:
    """The names of this machine's NVIDIA GPUs, as nvidia-smi lists them; none without it."""
    if not (tool := shutil.which("nvidia-smi")):
        return []
    try:
        done = subprocess.run(
            [tool, "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, check=False, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()] if done.returncode == 0 else []


def _by_limits(check: str, value: float, none: float, little: float, says: str, mend: str) -> Finding:
    if value >= little:
        return Finding(check, "ok", says)
    return Finding(check, "problem" if value < none else "warning", says, mend)


def _about(check: str, wrong: list[str], right: str, mend: str) -> Finding:
    if not wrong:
        return Finding(check, "ok", right)
    more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    return Finding(check, "problem", "; ".join(wrong[:3]) + more, mend)
