"""lineage: what a registered version was made of, and which versions were made of some data."""

import re
from typing import Any

from pydantic import BaseModel, Json, TypeAdapter, ValidationError

from pipelines.core.errors import InputError, UsageError, printable
from pipelines.evaluation import gates
from pipelines.reports import lineage_page
from pipelines.tracking import ledger, registry

SHORTEST = 6  # letters of an md5


class Stage(BaseModel, extra="allow"):
    """One stage before a version, with its MLflow run and the md5s of what it read and wrote."""

    stage: str
    run: str
    read: dict[str, str]
    wrote: dict[str, str]


class Teacher(BaseModel, extra="allow"):
    """A registered version that another was made from."""

    model: str
    version: int


_STAGES = TypeAdapter(Json[list[Stage]])
_VERDICT = TypeAdapter(Json[dict[str, Any]])
_TEACHERS = TypeAdapter(Json[list[Teacher]])


def _tag(version: registry.Version, name: str, kind: TypeAdapter[Any]) -> Any:
    """The value of a version's tag; None without the tag, and where somebody else has written it."""
    try:
        return kind.dump_python(kind.validate_python(version.tags.get(name)))
    except ValidationError:
        return None


def of_model(which: str) -> dict[str, Any]:
    """The origin of the version `NAME@ALIAS` or `NAME@NUMBER`: its commit, its verdict and each stage before it."""
    parts = re.fullmatch(r"([\w.-]+)(?:@(\w+)|/(\d+))", which)
    if not parts:
        raise UsageError(f"{which}: not a version; write it as NAME@champion or NAME@3")
    name, label = parts[1], parts[2] or parts[3]
    version = registry.labelled(name, label)
    facts = described(version)
    return facts | {
        "champion": ledger.champion(name) == version.version,
        "parents": teachers(version) or registry.made_from(facts["stages"], version.tags.get("md5", "")),
    }


def described(version: registry.Version) -> dict[str, Any]:
    """The facts in the tags of a version. Raises InputError if they have no lineage; other tags may be of any shape."""
    tags, stages = version.tags, _tag(version, "lineage", _STAGES)
    if not stages:
        raise InputError(f"{version} has no lineage: it was not registered by `bertline retrain`")
    return {
        "model": version.name,
        "version": version.version,
        "commit": tags.get("git_commit", ""),
        "dirty": tags.get("git_dirty") == "true",
        "verdict": _tag(version, "verdict", _VERDICT) or {},
        "stages": stages,
    }


def teachers(version: registry.Version) -> list[dict[str, Any]]:
    """The registered versions that a version says it was made from; none if it names none."""
    return _tag(version, registry.TEACHERS, _TEACHERS) or []


def of_data(md5: str) -> dict[str, Any]:
    """The stages that wrote and read data whose md5 is or begins with `md5`, and the versions that were made of it."""
    if not re.fullmatch(rf"[0-9a-f]{{{SHORTEST},32}}(\.dir)?", md5):
        raise UsageError(f"{md5}: not an md5; give {SHORTEST} or more of its digits, as in dvc.lock")
    paths: dict[str, str] = {}
    wrote: set[str] = set()
    read: set[str] = set()
    made_versions: list[registry.Version] = []
    versions = registry.versions()
    for version in versions:
        for stage in _tag(version, "lineage", _STAGES) or []:
            for files, stages in ((stage["wrote"], wrote), (stage["read"], read)):
                for path, digest in files.items():
                    if digest.startswith(md5):
                        paths[path] = digest
                        stages.add(stage["stage"])
                        if version not in made_versions:
                            made_versions.append(version)
    if not made_versions:
        raise InputError(f"{md5}: none of {len(versions)} registered versions was made of it")
    champions = {name: ledger.champion(name) for name in {version.name for version in made_versions}}
    return {
        "paths": paths,
        "wrote": sorted(wrote),
        "read": sorted(read),
        "versions": [
            {"model": version.name, "version": version.version, "champion": champions[version.name] == version.version}
            for version in made_versions
        ],
    }


def plain_model(version: dict[str, Any]) -> str:
    """The lineage of a version as lines of text."""
    first, *facts = _facts(version)
    lines = [f"{_named(version)}, {first}", *(f"  {fact}" for fact in facts)]
    for stage in reversed(version["stages"]):
        lines.append(f"{stage['stage']}{'  run ' + stage['run'] if stage['run'] else ''}")
        for verb in ("wrote", "read"):
            lines += [f"  {verb:5} {path}  {md5}" for path, md5 in stage[verb].items()]
    return "\n".join(map(printable, lines))


def page_of_model(version: dict[str, Any]) -> str:
    """The lineage of a version as a page of HTML with a picture."""
    return lineage_page.html(f"Lineage of {_named(version)}", _facts(version), version["stages"])


def _facts(version: dict[str, Any]) -> list[str]:
    """The commit of a version, its verdict and the versions that it was made from."""
    facts = [f"of commit {version['commit'] or 'unknown'}{' with uncommitted edits' if version['dirty'] else ''}"]
    facts += map(str, gates.findings(version["verdict"]))
    return facts + [f"made from {parent['model']} version {parent['version']}" for parent in version["parents"]]


def plain_data(data: dict[str, Any]) -> str:
    """The versions that came of data as lines of text."""
    lines = [f"{path}  {md5}" for path, md5 in data["paths"].items()]
    lines += [f"  written by {stage}" for stage in data["wrote"]]
    lines += [f"  read by {stage}" for stage in data["read"]]
    return "\n".join(map(printable, [*lines, *(f"  in {_named(version)}" for version in data["versions"])]))


def _named(version: dict[str, Any]) -> str:
    return f"{version['model']} version {version['version']}{', the champion' if version['champion'] else ''}"
