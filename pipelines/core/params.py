"""Read params.yaml one entry at a time; errors name the key and the choices. `checking` reads all of it."""

from collections.abc import Hashable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from pipelines.core import plugins
from pipelines.core.errors import UsageError, choices

FILE = Path("params.yaml")
ENTRIES = "pipelines.entries"  # one module per section
FREE = {"resources", "defaults"}  # `defaults` is a place for YAML anchors

S = TypeVar("S", bound=BaseModel)


def parse(model: type[S], values: Any, where: str, file: Path = FILE) -> S:
    """`values` as a `model`. Raises UsageError with the file, the key, what is wrong, and the choices."""
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


def options(entry: BaseModel, plugin: type[S], where: str, **shared: Any) -> S:
    """The keys of `entry` that its plugin owns, checked by the plugin's own Params.

    `shared` holds keys of the entry itself; the plugin may have them too.
    """
    known = {name: value for name, value in shared.items() if name in plugin.model_fields}
    return parse(plugin, known | (entry.model_extra or {}), where)


def read(file: Path = FILE) -> dict[str, Any]:
    """The whole file as plain values; a key that occurs twice is an error."""
    try:
        values = yaml.load(file.read_text(encoding="utf-8"), _Loader) or {}
    except FileNotFoundError:
        raise UsageError(f"{file}: no such file; stages run at the root of a checkout") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not readable as YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise UsageError(f"{file}: it must map section names to entries")
    sections = {*plugins.names(ENTRIES), *FREE}
    for section in values:
        if section not in sections:
            raise UsageError(f"{file}: {choices('section', section, sections)}")
    return values


def entry(section: str, name: str, model: type[S], file: Path = FILE) -> S:
    """One checked entry, such as `entry("finetune", "livedoor", Finetune)`."""
    there_are = read(file).get(section) or {}
    if name not in there_are:
        raise UsageError(f"{file}: {section}: {choices('entry', name, there_are)}")
    return parse(model, there_are[name], f"{section}.{name}", file)


class _Loader(yaml.SafeLoader):
    """YAML's own loader, but a key that occurs twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        twice = {key for key in keys if keys.count(key) > 1}
        if twice:
            raise yaml.MarkedYAMLError(problem=f"the key {min(twice)!r} occurs twice", problem_mark=node.start_mark)
        return super().construct_mapping(node, deep)
