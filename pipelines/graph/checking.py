"""Check params.yaml: every entry, and every name by which one entry refers to another."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from os.path import normpath
from pathlib import Path
from typing import Any

from pipelines.core import params, paths, plugins, resources
from pipelines.core.errors import UsageError, choices
from pipelines.core.section import Section
from pipelines.graph import code_manifest

# groups of sections that share a folder: artifacts/models; artifacts/predictions and artifacts/metrics
TOGETHER = (("import_weights", "pretrain", "finetune", "compress"), ("baseline", "evaluate"))
Entries = dict[str, dict[str, Section]]  # section -> name -> entry


def check(file: Path = params.FILE) -> Entries:
    """All entries of the file. Raises UsageError for the first entry that is malformed or names a missing entry."""
    values = params.read(file)
    stages = resources.read(file=file).stages
    sections = {name: section(name) for name in plugins.names(params.ENTRIES)}
    checked: Entries = {
        name: {key: params.parse(model, item, f"{name}.{key}", file) for key, item in values.get(name, {}).items()}
        for name, model in sections.items()
    }
    for name, model in sections.items():
        for key, item in checked[name].items():
            for field, targets in model.refers.items():
                if (target := getattr(item, field)) and not isinstance(target, bool):
                    _require(checked, targets, target, f"{file}: {name}.{key}.{field}")
            if model.named_after:
                _require(checked, model.named_after, key, f"{file}: {name}.{key}")
        _require_an_end(checked, name, model, file)
    _require_unseen_rows(checked, file)
    _require_other_targets(checked, file)
    for group in TOGETHER:
        _require_distinct(checked, group, file)
    for name in stages:
        stage, _, key = name.partition("@")
        _require_stage(stage, key, checked, f"{file}: resources.stages")
        resources.read(stage, key, file)
    return checked


def check_options(checked: Entries, file: Path = params.FILE) -> None:
    """Raise UsageError for the first entry whose plugin does not exist, or does not accept the keys of the entry.

    The check imports the plugins; some of them import torch, which takes seconds.
    """
    for section, entries in checked.items():
        for name, entry in entries.items():
            if any(entry.plugins):
                _check_options(entry, f"{section}.{name}", file)


def _check_options(entry: Section, where: str, file: Path) -> None:
    key, package = entry.plugins
    plugin, known = getattr(entry, key), plugins.names(package)
    if plugin not in known:
        raise UsageError(f"{file}: {where}: {choices(key, plugin, known)}")
    params.options(entry, plugins.load(package, plugin).Params, where, **entry.shared())


def require_graph() -> None:
    """Raise UsageError unless the working folder has a graph."""
    if not Path(code_manifest.FILE).is_file():
        raise UsageError(f"{code_manifest.FILE}: no such file; {params.PLACE}")


def require_root() -> None:
    """Raise UsageError in a folder below a project's root: a params.yaml that is written there is of no project."""
    here = Path.cwd()
    for folder in here.parents if not Path(code_manifest.FILE).exists() else ():
        if (folder / code_manifest.FILE).is_file() and (folder / params.FILE).is_file():
            raise UsageError(f"{here}: a folder of the project {folder}; run the command there")


def activate(file: Path, force: bool) -> None:
    """Make `file` the active params.yaml.

    Raises UsageError if the file is invalid or active already, or below a project's root. Unless `force`, it is also
    raised if params.yaml has edits that neither the last commit nor another params file holds, here or in params/,
    since they would be lost.
    """
    require_root()
    check(file)
    active = params.FILE
    if active.exists() and active.samefile(file):
        raise UsageError(f"{file} is the active params file already")
    if active.exists() and not force:
        others = [other for folder in (Path(), Path("params")) for other in folder.glob("*.yaml") if other != active]
        saved = [other.read_bytes() for other in others if other.is_file()]
        committed = subprocess.run(["git", "show", f"HEAD:./{active}"], capture_output=True, check=False).stdout
        if active.read_bytes() not in [*saved, committed]:
            raise UsageError(
                f"{active} has edits that are in no commit and no other params file, here or in params/; "
                "commit it, or --force"
            )
    with paths.fresh_file(active) as aside:
        shutil.copyfile(file, aside)


def require_entry(name: str, *sections: str) -> None:
    """Raise UsageError unless params.yaml has an entry of that name in one of the sections."""
    _require(params.read(), sections, name, str(params.FILE))


def stages_of_graph() -> dict[str, Any]:
    """The stages of dvc.yaml, to which a user may have added; none where there is no such file."""
    graph = Path(code_manifest.FILE)
    return code_manifest.in_graph(graph) if graph.is_file() else {}


def _require_stage(stage: str, key: str, checked: Entries, where: str) -> None:
    """Raise UsageError unless the stage exists and, if `key` is not empty, has an entry of that name."""
    known = dict.fromkeys([*plugins.names("pipelines.stages"), *stages_of_graph()])
    if stage not in known:
        raise UsageError(f"{where}: {choices('stage', stage, known)}")
    if key and key not in checked.get(stage, {}):
        raise UsageError(f"{where}: {choices(f'{stage} entry', key, checked.get(stage, {}))}")


def section(name: str) -> type[Section]:
    """The class of a section's entries; for `build_vocab`, BuildVocab in pipelines/entries/build_vocab.py."""
    return getattr(plugins.load(params.ENTRIES, name), name.title().replace("_", ""))


def _require_an_end(checked: Entries, section: str, model: type[Section], file: Path) -> None:
    """Raise UsageError if entries of one section, such as a model and its teacher, refer to each other in a cycle."""
    for field in (field for field, targets in model.refers.items() if section in targets):
        for name, entry in checked[section].items():
            passed, other = [name], getattr(entry, field)
            while other in checked[section] and other not in passed:
                passed, other = [*passed, other], getattr(checked[section][other], field)
            if other == name:
                raise UsageError(
                    f"{file}: {section}.{name}.{field}: {getattr(entry, field)} is made from {name} itself"
                )


def _require_unseen_rows(checked: Entries, file: Path) -> None:
    """Raise UsageError if `evaluate` scores a model on its `dev` split, on which its weights were selected."""
    for section in ("finetune", "compress"):
        for name, entry in checked[section].items():
            fitted: Any = entry
            scored: Any = checked["evaluate"].get(name)
            encoded: Any = checked["encode"].get(fitted.data) if fitted.dev and scored else None
            if encoded and (encoded.task, fitted.dev) == (scored.task, scored.split):
                raise UsageError(
                    f"{file}: {section}.{name}.dev: {fitted.dev} is the split that evaluate.{name} scores, and "
                    "weights that were chosen on it would score too high; take another split"
                )


def _require_other_targets(checked: Entries, file: Path) -> None:
    """Raise UsageError if two `score` entries have one target: the files of one would stand for those of the other."""
    owner: dict[str, str] = {}
    for name, entry in checked["score"].items():
        scored: Any = entry
        first = owner.setdefault(normpath(scored.target), name)
        if first != name:
            raise UsageError(f"{file}: score.{name}.target: {scored.target} is that of score.{first}; name another")


def _require_distinct(checked: Entries, sections: tuple[str, ...], file: Path) -> None:
    """Raise UsageError if entries of two of these sections share a name: both would write the same artefact."""
    owner: dict[str, str] = {}
    for section in sections:
        for name in checked[section]:
            if name in owner:
                raise UsageError(
                    f"{file}: {owner[name]}.{name} and {section}.{name} would write the same artefact; rename one"
                )
            owner[name] = section


def _require(entries: Mapping[str, Mapping[str, Any]], sections: Sequence[str], name: str, where: str) -> None:
    names = [name for section in sections for name in entries.get(section, {})]
    if name not in names:
        raise UsageError(f"{where}: {choices(' or '.join(sections) + ' entry', name, names)}")
