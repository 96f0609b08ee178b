"""The entries of params.yaml for a corpus of one's own, and their place in a file that keeps its other lines."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.core import paths, yaml_file
from pipelines.core.errors import InputError, UsageError
from pipelines.data import recipes, split_rows
from pipelines.data.corpora import custom
from pipelines.data.file_form import TABLES
from pipelines.data.findings import Findings
from pipelines.data.inspection import Inspection
from pipelines.data.own_params import Params
from pipelines.graph import checking

Entries = dict[str, tuple[str, str, dict[str, Any]]]  # section -> name, comment, entry
SECTIONS = (
    *("ingest", "prepare", "build_vocab", "import_weights", "encode", "pretrain"),
    *("finetune", "baseline", "compress", "evaluate", "export", "promote"),
)
ORDER = (
    *("kind", "source", "files", "format", "encoding", "delimiter", "sheet", "columns", "where", "units", "labels"),
    *("leave_out", "unanswerable", "split", "language"),
)
ALONE = "# Entries of one's own; `bertline use {file}` makes this file the active params.yaml.\n\n"
SPLIT_COMMENT = "shares of each label, similar texts in one split"


def entries(name: str, seen: Inspection, origin: str = "") -> Entries:
    """The entries that take a corpus from its files to a model with a score, and to a challenger.

    A comment names the `origin` of rows that were copied from elsewhere.
    """
    made = {"split"} if "split" in seen.keys else set()
    rows, language, kind = seen.rows.get("train", 0), seen.keys["language"], seen.kind
    fit = {"data": name, **recipes.finetune(kind, language, rows)}
    splits = {*seen.keys.get("files", {}), *(("dev", "test") if made else ())}
    if "dev" in splits and seen.keys.get("split", {"dev": 1}).get("dev"):
        fit["dev"] = "dev"
    scored = {"task": name} if "test" in splits else {"task": name, "split": "dev"}
    tokens = recipes.max_length(kind, language, seen.long)
    expect = {"expect": {"no_leakage": True}} if made and kind != "span" else {}
    chosen = f"from pipelines/data/recipes.py, for {rows:,} rows of kind {kind}"
    counted = f"{sum(seen.rows.values()):,} rows" + (f" from {origin}" if origin else "")
    return {
        "prepare": (name, counted, {"corpus": "custom", **_prepare(seen), **expect}),
        "encode": (
            name,
            f"19 of 20 texts have at most {seen.long:,} characters",
            {"task": name, "vocab": recipes.encoder(language), "max_length": tokens},
        ),
        "finetune": (name, chosen, fit),
        "baseline": (f"{name}-baseline", "what the model must beat to be worth its cost", scored),
        "evaluate": (name, "", scored),
        "export": (name, "for `bertline serve`", {}),
        "promote": (name, "the gate; set at_least to the lowest score that you accept", {"run": name, "at_least": 0.0}),
    }


def add_split(seen: Inspection) -> list[str]:
    """Add the key `split` if only one file is there, and none of them is a test; returns a line on a split left out.

    Raises InputError if no test can be made of the rows.
    """
    if {*seen.keys.get("files", {"train": ""})} != {"train"}:
        return []
    enough = sum(seen.rows.values()) >= recipes.ENOUGH_FOR_DEV
    refused: list[str] = []
    for shares in ([{"test": 0.2, "dev": 0.1}] if enough else []) + [{"test": 0.2}]:
        seen.keys["split"] = {**shares, "seed": 1}
        try:
            _require_splits(seen)
        except InputError as error:
            refused.append(str(error))
        else:
            return [f"{why}; so none is made" for why in refused]
    raise InputError(f"{refused[-1]}, or name two files, of which one is the test")


def _require_splits(seen: Inspection) -> None:
    """Raise InputError if the rows cannot be divided as the key `split` says."""
    keys = {key: value for key, value in seen.keys.items() if key != "source"}
    params, raw = Params(**keys), Path(seen.keys["source"])
    assert params.split, "it was written"
    rows = custom.read(raw, "train", params, Findings(params.leave_out))
    try:
        split_rows.splits(rows, params.kind, params.split)
    except InputError as error:
        raise InputError(f"{raw}: {error}") from None


def write(file: Path, added: Entries) -> None:
    """Add entries to a params file, or make it. Lines that are there stay as they are.

    Raises UsageError if a name is taken, or the file has a form to which lines cannot be added.
    """
    text, line_end = _read(file) if file.exists() else (_empty(file), "\n")
    before = yaml_file.read(file, "") if file.exists() else {section: {} for section in SECTIONS}
    for section, (name, _, _) in added.items():
        taken = [group for group in _sharing(section) if name in (before.get(group) or {})]
        if taken:
            raise UsageError(f"{file}: {taken[0]}.{name} is there already; give another name, or remove it")
    for section, (name, comment, entry) in added.items():
        try:
            text = _inserted(text, section, _lines(name, comment, entry))
        except UsageError as error:
            raise UsageError(f"{file}: {error}") from None
    with paths.fresh_file(file) as aside:
        aside.write_text(text, encoding="utf-8", newline=line_end)
        wanted = {key: {**(value or {})} for key, value in before.items()}
        for section, (name, _, entry) in added.items():
            wanted.setdefault(section, {})[name] = entry
        if yaml_file.read(aside, "") != wanted:
            raise UsageError(
                f"{file}: entries cannot be added to its form; write them into a file of their own: --into"
            )
        checking.check(aside)


def _read(file: Path) -> tuple[str, str]:
    """The text of a file with \\n as its line ends, and those that most of its lines have."""
    text = file.read_bytes().decode()
    line_end = "\r\n" if text.count("\r\n") > text.count("\n") / 2 else "\n"
    return text.replace("\r\n", "\n"), line_end


def _sharing(section: str) -> tuple[str, ...]:
    """The sections in which a name may stand once: they write into the same folder."""
    return next((group for group in checking.TOGETHER if section in group), (section,))


def _empty(file: Path) -> str:
    return ALONE.format(file=file) + "".join(f"{section}: {{}}\n" for section in SECTIONS)


def _prepare(seen: Inspection) -> dict[str, Any]:
    """The keys of the corpus in the order in which a person reads them; a format that all suffixes tell is left out."""
    keys = dict(seen.keys)
    names = keys.get("files", {"train": keys["source"]}).values()
    if keys["format"] in TABLES and {Path(name).suffix for name in names} == {f".{keys['format']}"}:
        del keys["format"]
    return {key: keys[key] for key in ORDER if key in keys}


def _lines(name: str, comment: str, entry: Mapping[str, Any]) -> list[str]:
    """The lines of an entry: a mapping in braces where it is short, else a key a line."""
    remark = f"  # {comment}" if comment else ""
    name = _flow(name)  # a date or a number stands in quotes
    if not any(isinstance(value, dict) for value in entry.values()) and len(_flow(entry)) < 90:
        return [f"{name}: {_flow(entry)}{remark}"]
    lines = [f"{name}:{remark}"]
    for key, value in entry.items():
        if key == "labels":  # in a block: between braces DVC would write a key without its quotes
            lines += [f"  {line}" for line in yaml_file.dump({key: value}).splitlines()]
        else:
            more = f"  # {SPLIT_COMMENT}" if key == "split" else ""
            written = json.dumps(value) if key == "delimiter" else _flow(value)
            lines.append(f"  {key}: {written}{more}")
    return lines


def _flow(value: Any) -> str:
    return yaml_file.dump(value, flow=True).removesuffix("\n").removesuffix("\n...")


def _inserted(text: str, section: str, lines: list[str]) -> str:
    """The text with the lines of an entry at the start of its section, indented as the others."""
    end = "" if text.endswith("\n") or not text else "\n"
    head = re.search(rf"^{section}:[ \t]*(\{{\}}|null|~)?[ \t]*(#.*)?$", text, re.MULTILINE)
    if not head and re.search(rf"^{section}:", text, re.MULTILINE):
        raise UsageError(f"its section {section} is in braces; write the entries into a file of their own: --into FILE")
    if not head:
        return f"{text}{end}\n{section}:\n" + "".join(f"  {line}\n" for line in lines)
    comment = f"  {head[2]}" if head[2] else ""
    rest = text[head.end() :]
    indent = re.match(r"(?:\s*\n|[ \t]*#.*\n)*([ \t]+)[^\s#]", rest)
    spaces = indent[1] if indent and not head[1] else "  "
    block = "".join(f"\n{spaces}{line}" for line in lines)
    return f"{text[: head.start()]}{section}:{comment}{block}{rest}"
