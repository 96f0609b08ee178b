"""A stage reads what dvc.yaml declares, and nothing else of the checkout."""

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from pipelines.core import provenance
from pipelines.graph.dvc_steps import locked, opened, planned
from tests.support import forked

pytestmark = pytest.mark.slow


class Declared(NamedTuple):
    """What a stage reads and writes, and which of that is the same whenever it runs."""

    deps: list[str]
    outs: list[str]


def declared() -> dict[str, Declared]:
    """The stages of the graph but `code`, which is of the code itself."""
    with opened() as repo, locked(repo):
        stages, _ = planned(repo)
        return {
            stage.addressing: Declared(
                [str(dep) for dep in stage.deps if dep not in stage.params], [str(out) for out in stage.outs]
            )
            for stage in stages
            if stage.addressing != "code"
        }


def test_each_stage_runs_with_only_its_declared_deps(
    repository: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes the same files as in a checkout that holds everything."""
    stages = declared()
    assert len(stages) == 16
    for name, stage in stages.items():
        place = checkout / "alone" / name.replace("@", "-")
        section, _, key = name.partition("@")
        sources = ["samples"] if section == "ingest" else []  # the corpus's code pins them by their sha256
        for dep in (*stage.deps, *sources, "params.yaml"):
            copy(repository / dep, place / dep)
        monkeypatch.chdir(place)
        ended = forked.run(f"pipelines.stages.{section}", *filter(None, [key]))
        assert ended.returncode == 0, f"{name}: {ended.stderr}"
        for out in stage.outs:
            assert contents(place / out) == contents(repository / out), f"{name}: {out}"


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)


def contents(place: Path) -> dict[str, str]:
    """The digest of each file of an output."""
    files = [place] if place.is_file() else [file for file in sorted(place.rglob("*")) if file.is_file()]
    assert files
    return {file.name: provenance.sha256(file) for file in files}
