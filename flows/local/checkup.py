"""All checks of `bertline doctor`, with the values of this machine and this checkout."""

import configparser
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from flows.local import diagnosis, prefect_settings, reachable, service_ports
from flows.local.diagnosis import Finding
from pipelines.core import cpu, memory
from pipelines.core.errors import InputError, one_line
from pipelines.graph import import_closure, params_findings

SECONDS = 2.0
DVC_CONFIGS = (Path(".dvc/config"), Path(".dvc/config.local"))


def findings() -> Iterator[Finding]:
    """A finding for each check, in the order of an installation: Python first, then the machine, then the checkout.

    A check that fails is a problem itself: the others still run on a broken machine.
    """
    install = "rm -f .venv/.installed && make install"
    checks: list[tuple[str, str, Callable[[], Iterable[Finding]]]] = [
        ("python", install, lambda: [diagnosis.python()]),
        ("pins", f"git checkout -- {' '.join(diagnosis.LOCKS)}", pinned),
        ("needs", install, lambda: [diagnosis.unmet(metadata.distributions())]),
        ("machine", "bertline --debug doctor", machine),
        ("dictionaries", install, japanese),
        ("locale", "export LC_ALL=C.UTF-8 PYTHONUTF8=1", encodings),
        ("mirror", "unset BERTLINE_MIRROR", lambda: [diagnosis.mirror(os.environ.get("BERTLINE_MIRROR", ""))]),
        (
            "remotes",
            "edit that file until `dvc remote list` reads it",
            lambda: [diagnosis.remote(*one) for one in remotes()],
        ),
        ("ports", f"unset {' '.join(name for name, _ in service_ports.VARIABLES.values())}", ports),
        ("port 8000", "bertline serve NAME --port 8001", served),
        ("servers", "bertline down && bertline up", started),
        ("git", "git status", lambda: [diagnosis.git(Path())]),
        ("params.yaml", "bertline check", lambda: [diagnosis.entries(params_findings.require_form)]),
    ]
    for check, mend, findings in checks:
        try:
            yield from findings()
        except Exception as error:  # a broken machine fails in ways of its own
            yield Finding(check, "problem", one_line(error), mend)


def pinned() -> Iterator[Finding]:
    yield diagnosis.pins([lock.read_text() for lock in locks()], metadata.version)


def encodings() -> Iterator[Finding]:
    yield diagnosis.encoding(
        {"the names of files": sys.getfilesystemencoding(), "output": sys.stdout.encoding or "utf-8"}
    )


def locks() -> list[Path]:
    """The locks beside the installed code that the installed build of torch needs; a project has none."""
    cpu = "+cpu" in torch_build()
    files = [import_closure.ROOT / name for name in diagnosis.LOCKS if not (cpu and "cuda" in name)]
    return [file for file in files if file.is_file()]


def torch_build() -> str:
    """The version of torch, which ends with its build; `pins` says what to do where it is missing."""
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return "(missing)"


def machine() -> Iterator[Finding]:
    yield diagnosis.cores(cpu.cores())
    yield diagnosis.memory(memory.free_bytes())
    yield diagnosis.disk(shutil.disk_usage(".").free)
    yield diagnosis.gpu(diagnosis.cards(), torch_build())


def japanese() -> Iterator[Finding]:
    from pipelines.text import mecab

    for name in mecab.DICTIONARIES:
        yield diagnosis.dictionary(name, lambda text, name=name: mecab.tagger(name)(text))  # type: ignore[misc]


def remotes() -> Iterator[tuple[str, str, bool]]:
    """The name and the address of each DVC remote, and whether it is the default.

    Raises InputError for a configuration that cannot be read, such as one with a conflict.
    """
    config = configparser.ConfigParser(interpolation=None)  # addresses may hold %
    for path in DVC_CONFIGS:
        try:
            config.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError) as error:
            raise InputError(f"{path}: {one_line(error)}") from None
    default = config.get("core", "remote", fallback="")
    for section in config.sections():
        name = section.strip("'").removeprefix("remote ").strip('"')
        if section.strip("'").startswith("remote ") and (url := config.get(section, "url", fallback="")):
            place = url if "://" in url or Path(url).is_absolute() else str(Path(".dvc") / url)
            yield name, place, name == default


def ports() -> Iterator[Finding]:
    for name, number in service_ports.numbers().items():
        mend = f"BERTLINE_{name.upper()}_PORT={number + 1} bertline up"
        yield diagnosis.port(name, number, bool(prefect_settings.running(name)), mend)


def served() -> Iterator[Finding]:
    yield diagnosis.port("bertline serve", 8000, reachable.healthy(8000), "bertline serve NAME --port 8001")


def started() -> Iterator[Finding]:
    """The servers and the worker that `bertline up` started, and MLflow's server if the environment names one."""
    for name in service_ports.VARIABLES:
        running = bool(prefect_settings.running(name))
        recorded = running or (prefect_settings.PIDS / name).is_file()
        answering = running and answers(f"{prefect_settings.record(name)['address']}/health")
        yield diagnosis.server(name, recorded, answering)
    runs = bool(prefect_settings.running("worker"))
    yield diagnosis.worker(runs or (prefect_settings.PIDS / "worker").is_file(), runs)
    uri = os.environ.get("MLFLOW_TRACKING_URI", "")
    if uri.startswith("http"):
        yield diagnosis.server(
            "MLFLOW_TRACKING_URI", True, answers(f"{uri.rstrip('/')}/health"), "unset MLFLOW_TRACKING_URI"
        )


def answers(address: str) -> bool:
    """Return whether a server answers, with whatever status."""
    try:
        with urlopen(address, timeout=SECONDS):
            return True
    except HTTPError:
        return True
    except (URLError, OSError, ValueError):
        return False
