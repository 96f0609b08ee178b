"""A check that the files, columns and splits named in params.yaml exist, so that errors appear before a training."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipelines.core import params, paths, plugins
from pipelines.core.errors import InputError, choices
from pipelines.core.task import FILE, Task
from pipelines.data.corpora import custom
from pipelines.entries.parts.scored import OF_KIND

Entries = Mapping[str, Mapping[str, Any]]  # section -> name -> entry, as `checking.check` returns them
TRAIN = "train"  # the split that models are fitted on
OF_PROJECT = "this folder holds the project too, and stages write into it; give the corpus one of its own"


def complaints(checked: Entries) -> Iterator[str]:
    """A sentence for each name of something missing. Files that a stage, such as `ingest`, writes are not checked."""
    splits: dict[str, tuple[str, ...]] = {}
    for name, entry in checked["prepare"].items():
        split_names, wrong = _prepared(name, entry)
        yield from wrong
        if split_names:
            splits[name] = split_names
    yield from _trained(checked, splits)
    for section in ("baseline", "evaluate"):
        for name, entry in checked[section].items():
            required = {"split": entry.split} | ({"task": TRAIN} if section == "baseline" else {})
            yield from _lacking(checked["prepare"], splits, entry.task, required, f"{section}.{name}")
    for name, rules in checked["promote"].items():
        if scored := checked["evaluate"].get(rules.run):
            yield from of_gate(name, rules, scored)


def of_gate(name: str, rules: Any, scored: Any) -> Iterator[str]:
    """A sentence for each slice and label of a promote entry that its evaluate entry, or the rows made, do not have."""
    for part in rules.slices:
        if part not in scored.slices and not OF_KIND.fullmatch(part):
            declare = f"declare it in evaluate.{rules.run}.slices"
            yield f"promote.{name}.slices.{part}: {choices('slice', part, scored.slices)}; {declare}"
    rows = paths.rows(scored.task)
    if rules.classes and (rows / FILE).is_file():
        labels = Task.load(rows).labels
        for label in rules.classes:
            if label not in labels:
                yield f"promote.{name}.classes.{label}: {rows}: {choices('label', label, labels)}"


def _trained(checked: Entries, splits: dict[str, tuple[str, ...]]) -> Iterator[str]:
    """A sentence for each missing split that a training reads: `train`, and the split that `dev` names."""
    for section in ("finetune", "compress"):
        for name, entry in checked[section].items():
            encoded = checked["encode"].get(entry.data)
            if encoded is None:  # the method takes its rows from the teacher
                continue
            required = {"data": TRAIN} | ({"dev": entry.dev} if entry.dev else {})
            yield from _lacking(checked["prepare"], splits, encoded.task, required, f"{section}.{name}")


def _lacking(
    entries: Mapping[str, Any], splits: dict[str, tuple[str, ...]], task: str, required: dict[str, str], where: str
) -> Iterator[str]:
    """A sentence for each key of an entry that names a split which its rows do not have."""
    for key, split in required.items():
        if task in splits and split not in splits[task]:
            made = ", ".join(splits[task])
            one_file = entries[task].corpus == "custom" and not entries[task].splits and splits[task] == (TRAIN,)
            hint = f"; `split: {{{split}: 0.2}}` under prepare.{task} makes it of train" if one_file else ""
            yield f"{where}.{key}: prepare.{task} makes no split {split!r}; it makes {made}{hint}"


def _prepared(name: str, entry: Any) -> tuple[tuple[str, ...], list[str]]:
    """The splits that an entry of prepare makes, () if they are not known yet, and sentences about its errors."""
    where, corpus = f"prepare.{name}", plugins.load("pipelines.data.corpora", entry.corpus)
    made_by_a_stage = paths.ARTIFACTS in Path(entry.source).parents
    wrong = []
    if not (raw := Path(entry.source)).exists() and not made_by_a_stage:
        wrong.append(f"{where}.source: {raw}: no such file or folder")
    elif holds_project(raw):
        wrong.append(f"{where}.source: {raw}: {OF_PROJECT}, such as {name}, and name that")
    if entry.corpus == "custom":
        options = params.options(entry, corpus.Params, where)
        splits = options.splits
        if raw.exists():
            whys = {split: _unreadable(raw, split, options) for split in options.files}
            wrong += [f"{where}.files.{split}: {why}" for split, why in whys.items() if why]
    else:
        task = corpus.TASKS.get(entry.task)
        splits = task.splits if task else ()
    for split in entry.splits if splits else []:
        if split not in splits:
            wrong.append(f"{where}.splits: {choices('split', split, splits)}")
    return tuple(entry.splits) or splits, wrong


def holds_project(folder: Path) -> bool:
    """Return whether a folder has the project in it, so that a stage would depend on what it writes."""
    return folder.is_dir() and Path().resolve().is_relative_to(folder.resolve())


def _unreadable(raw: Path, split: str, options: custom.Params) -> str:
    """The reason why the first row of a split cannot be read; "" if it can."""
    try:
        custom.first_row(raw, split, options)
    except InputError as error:
        return str(error)
    return ""
