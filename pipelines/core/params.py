"""Read params.yaml one entry at a time; errors name the key and the choices. `checking` reads all of it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from pipelines.core import plugins, yaml_file
from pipelines.core.errors import UsageError, choices, sentence, shown
from pipelines.core.section import Name

FILE = Path("params.yaml")
NAME: TypeAdapter[str] = TypeAdapter(Name)
ENTRIES = "pipelines.entries"  # one module per section
PLACE = "stages run at the root of a checkout, or of a project of `bertline init`"
READY_MADE = "the ready-made files are in params/ of bertline's checkout"
FREE = {"resources", "defaults"}  # `defaults` is a place for YAML anchors

S = TypeVar("S", bound=BaseModel)


def parse(model: type[S], values: Any, where: str, file: Path = FILE, others: Iterable[str] = ()) -> S:
    """`values` as a `model`. Raises UsageError with the file, the key, what is wrong, and the choices.

    `others` are keys of the same entry that another model reads; the error for an unknown key lists them too.
    """
    if not isinstance(values, dict):
        raise UsageError(f"{file}: {where}: {shown(values)} is not a mapping of keys to values")
    try:
        return model.model_validate(values)
    except ValidationError as invalid:
        first = invalid.errors()[0]
    if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
        raise UsageError(f"{file}: {where}: {choices('key', first['loc'][-1], {*model.model_fields, *others})}")
    raise UsageError(f"{file}: {sentence(first, where)}")


def options(entry: BaseModel, plugin: type[S], where: str, **shared: Any) -> S:
    """The keys of `entry` that its plugin owns, checked by the plugin's own Params.

    `shared` holds keys of the entry itself; the plugin gets those that its Params declares too.
    """
    known = {name: value for name, value in shared.items() if name in plugin.model_fields}
    return parse(plugin, known | (entry.model_extra or {}), where, others=type(entry).model_fields)


def read(file: Path = FILE) -> dict[str, dict[str, Any]]:
    """The whole file as plain values: sections, and the entries of each. Raises UsageError for any other form."""
    values = yaml_file.read(file, PLACE if file == FILE else READY_MADE)
    sections = {*plugins.names(ENTRIES), *FREE}
    for section, entries in values.items():
        if section not in sections:
            raise UsageError(f"{file}: {choices('section', section, sections)}")
        if section != "defaults" and not isinstance(entries, dict | None):
            raise UsageError(f"{file}: {section}: {shown(entries)} is not a mapping of names to entries")
        for name in entries or {} if section not in FREE else {}:
            require_name(name, f"{file}: {section}")
    return {section: entries or {} for section, entries in values.items()}


def require_name(name: str, where: str) -> None:
    """Raise UsageError unless `name` may name an artefact: it becomes a part of paths and of commands."""
    try:
        NAME.validate_python(name)
    except ValidationError:
        raise UsageError(
            f"{where}: {shown(name)} is not a valid name; a name has at most 100 letters, digits, '_' and '-' of "
            "ASCII, and begins with a letter, a digit or '_'"
        ) from None


def entry(section: str, name: str, model: type[S], file: Path = FILE) -> S:
    """One checked entry, such as `entry("finetune", "livedoor", Finetune)`."""
    there_are = read(file).get(section, {})
    if name not in there_are:
        raise UsageError(f"{file}: {section}: {choices('entry', name, there_are)}")
    return parse(model, there_are[name], f"{section}.{name}", file)
