"""All findings about params.yaml: its sections, its entries, and the files, columns and splits that they name."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from pipelines.core import params, yaml_file
from pipelines.core.errors import UsageError
from pipelines.data import references
from pipelines.graph import checking, code_manifest

SECTION = re.compile(r"\$\{(\w+)\}")  # the place of a stage's entries, in `foreach`


def read() -> tuple[checking.Entries, list[str]]:
    """The entries, none if one of them is malformed, and a sentence for each finding."""
    sections: checking.Entries = {}
    wrong: list[str] = []
    try:
        wrong += _lacking(yaml_file.read(params.FILE, "stages run at the root of a checkout"))
        sections = checking.check()
        checking.check_options(sections)
        wrong += [f"{params.FILE}: {complaint}" for complaint in references.complaints(sections)]
    except UsageError as error:
        wrong.append(str(error))
    return sections, wrong


def _lacking(values: dict[str, Any]) -> Iterator[str]:
    """A sentence if the graph takes the entries of sections that are not there, which DVC says in its own words."""
    graph = Path(code_manifest.FILE)
    listed = yaml.safe_load(graph.read_text(encoding="utf-8"))["stages"] if graph.is_file() else {}
    needed = [SECTION.fullmatch(str(described.get("foreach", ""))) for described in listed.values()]
    if lacking := [name[1] for name in needed if name and values.get(name[1]) is None]:
        lines = ", ".join(f"`{name}: {{}}`" for name in lacking)
        yield f"{params.FILE}: no section {', '.join(lacking)}; {graph} needs each, even if it is empty: write {lines}"
