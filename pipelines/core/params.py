"""params.yaml, read and checked: every entry of every stage, with errors that name the key and the choices."""

from collections.abc import Hashable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from pipelines.core.entries import REFERENCES, SECTIONS, Resources, Section
from pipelines.core.errors import UsageError, choices

FILE = Path("params.yaml")
FREE = {"resources", "defaults"}  # `defaults` is a place for YAML anchors

S = TypeVar("S", bound=BaseModel)


def parse(model: type[S], values: Any, where: str, file: Path = FILE) -> S:
    """`values` as a `model`, or one sentence: file, key, what was wrong, what there is."""
    if not isinstance(values, dict):
        raise UsageError(f"{file}: {where}: {values!r} is not a mapping of keys to values")
    try:
        return model.model_validate(values)
    except ValidationError as invalid:
        first = invalid.errors()[0]
    place = ".".join(map(str, (where, *first["loc"])))
    if first["type"] == "extra_forbidden":
        raise UsageError(f"{file}: {where}: {choices('key', first['loc'][-1], model.model_fields)}")
    if first["type"] == "missing":
        raise UsageError(f"{file}: {place}: missing, and it has no default")
    said = first["msg"].removeprefix("Value error, ")
    raise UsageError(f"{file}: {place}: {first['input']!r}: {said[0].lower()}{said[1:]}")


def options(entry: BaseModel, plugin: type[S], where: str) -> S:
    """The keys of `entry` that its plugin owns, checked by the plugin's own Params."""
    return parse(plugin, entry.model_extra or {}, where)


def read(file: Path = FILE) -> dict[str, Any]:
    """The whole file as plain values; a key that stands twice is an error."""
    try:
        values = yaml.load(file.read_text(encoding="utf-8"), _Loader) or {}
    except FileNotFoundError:
        raise UsageError(f"{file}: no such file; stages run at the root of a checkout") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not readable as YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise UsageError(f"{file}: it must map section names to entries")
    for section in values:
        if section not in SECTIONS and section not in FREE:
            raise UsageError(f"{file}: {choices('section', section, {*SECTIONS, *FREE})}")
    return values


def entry(section: str, name: str, model: type[S], file: Path = FILE) -> S:
    """One checked entry, such as `entry("finetune", "livedoor", Finetune)`."""
    there_are = read(file).get(section) or {}
    if name not in there_are:
        raise UsageError(f"{file}: {section}: {choices('entry', name, there_are)}")
    return parse(model, there_are[name], f"{section}.{name}", file)


def resources(file: Path = FILE) -> Resources:
    return parse(Resources, read(file).get("resources") or {}, "resources", file)


def check(file: Path = FILE) -> dict[str, dict[str, Section]]:
    """Every entry of the file, checked, with the names that entries use of each other."""
    values = read(file)
    resources(file)
    checked = {
        section: {
            name: parse(model, item, f"{section}.{name}", file) for name, item in (values.get(section) or {}).items()
        }
        for section, model in SECTIONS.items()
    }
    for (section, key), targets in REFERENCES.items():
        names = [name for target in targets for name in checked[target]]
        for name, item in checked[section].items():
            if getattr(item, key) not in names:
                wrong = choices(" or ".join(targets) + " entry", getattr(item, key), names)
                raise UsageError(f"{file}: {section}.{name}.{key}: {wrong}")
    _check_runs(checked, file)
    return checked


def _check_runs(checked: dict[str, dict[str, Section]], file: Path) -> None:
    for section, of in (
        ("evaluate", ("finetune", "compress")),
        ("export", ("finetune", "compress")),
        ("tune", ("finetune",)),
    ):
        models = [name for each in of for name in checked[each]]
        for name in checked[section]:
            if name not in models:
                wrong = choices(" or ".join(of) + " entry", name, models)
                raise UsageError(f"{file}: {section}.{name}: {wrong}")


class _Loader(yaml.SafeLoader):
    """YAML's own loader, but a key that stands twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        twice = {key for key in keys if keys.count(key) > 1}
        if twice:
            raise yaml.MarkedYAMLError(problem=f"the key {min(twice)!r} stands twice", problem_mark=node.start_mark)
        return super().construct_mapping(node, deep)
