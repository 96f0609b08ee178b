"""All findings about params.yaml: its sections, its entries, and the files, columns and splits that they name."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from pipelines.core import params, yaml_file
from pipelines.core.errors import FindingsError, UsageError, choices
from pipelines.graph import checking, code_manifest

SECTION = re.compile(r"\$\{(\w+)\}")  # the place of a stage's entries, in `foreach`


def read() -> tuple[checking.Entries, list[str]]:
    """The entries, none if one of them is malformed, and a sentence for each finding."""
    sections, wrong = of_form()
    if not sections:
        return sections, wrong
    from pipelines.data import references  # it reads tables, by libraries that `require_form` need not wait for

    try:
        checking.check_options(sections)
        wrong += [f"{params.FILE}: {complaint}" for complaint in references.complaints(sections)]
    except UsageError as error:
        wrong.append(str(error))
    return sections, wrong


def of_form() -> tuple[checking.Entries, list[str]]:
    """The same, but only about sections, keys and names: no plugin is imported, and no file of an entry is read."""
    wrong: list[str] = []
    try:
        wrong += _lacking(yaml_file.read(params.FILE, params.PLACE))
        return checking.check(), wrong
    except UsageError as error:
        return {}, [*wrong, str(error)]


def require_form(targets: Iterable[str] = ()) -> None:
    """Raise FindingsError, with the status of a UsageError, if `of_form` finds something.

    A run of the graph asks this first, since DVC would say it in words of its own. What is wrong with a file of an
    entry is said by the stage that reads it, as other stages can run without it.

    Args:
        targets: stages; one whose section has no such entry is a finding too.
    """
    sections, wrong = of_form()
    for section, at, name in (target.partition("@") for target in targets):
        if at and section in sections and name not in sections[section]:
            wrong.append(f"{params.FILE}: {section}: {choices('entry', name, sections[section])}")
    if wrong:
        raise FindingsError(wrong, UsageError.exit_status)


def _lacking(values: dict[str, Any]) -> Iterator[str]:
    """A sentence if the graph takes the entries of sections that are not there, which DVC says in its own words."""
    stages = checking.stages_of_graph()
    needed = [SECTION.fullmatch(str(described.get("foreach", ""))) for described in stages.values()]
    if lacking := [name[1] for name in needed if name and values.get(name[1]) is None]:
        lines = ", ".join(f"`{name}: {{}}`" for name in lacking)
        needs = f"{code_manifest.FILE} needs each, even if it is empty"
        yield f"{params.FILE}: no section {', '.join(lacking)}; {needs}: write {lines}"
