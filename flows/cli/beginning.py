"""The command for a corpus of one's own: look at its files, and write its entries."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.arguments import group
from flows.cli.completion import of_sections
from flows.cli.panels import MAKE, listed
from pipelines.core.errors import InputError, UsageError, printable

cli = group()
CORPORA = of_sections("prepare")
PARAMS = Path("params.yaml")  # params.FILE; a shell's completion imports this module, and must not wait


@cli.command(**listed(MAKE, "bertline new tickets.csv", "bertline new train.csv test.csv mails"))
def new(
    files: Annotated[list[str], typer.Argument(help="files or a folder, and a name for the entries if you like")],
    text: Annotated[str, typer.Option(help="the column of the texts")] = "",
    label: Annotated[str, typer.Option(help="the column of the labels")] = "",
    into: Annotated[Path, typer.Option(help="the params file to write into; made if it is not there")] = PARAMS,
    yes: Annotated[bool, typer.Option("--yes", help="ask nothing")] = False,
) -> None:
    """Look at FILES, say what is in them, and write the entries that make a model of them.

    CSV, TSV, JSONL, Parquet, xlsx, SQuAD's JSON, CoNLL's columns, or a folder with one folder for each label.
    `bertline new tickets.csv` writes entries named tickets; `bertline new train.csv test.csv mails` names them mails.
    """
    from pipelines.core import params
    from pipelines.data import inspection
    from pipelines.graph import new_entries

    paths, name = _named(files)
    params.require_name(name, "bertline new: NAME")
    seen = inspection.inspect(paths, text, label)
    print("\n".join(map(printable, inspection.sentences(seen))))
    if not yes and sys.stdin.isatty():
        if "columns" in seen.keys and not (text and label):
            columns = {ours: seen.keys["columns"].get(ours, ours) for ours in ("text", "label")}
            text = typer.prompt("the column of the texts", default=text or columns["text"])
            label = typer.prompt("the column of the labels", default=label or columns["label"])
            seen = inspection.inspect(paths, text, label)
        if not typer.confirm(f"write the entries {name} into {into}?", default=True):
            raise UsageError("nothing is written")
    new_entries.divide(seen)
    added = new_entries.entries(name, seen)
    new_entries.write(into, added)
    print(f"{into}: {', '.join(f'{section}.{key}' for section, (key, _, _) in added.items())} are written")
    if into != params.FILE:
        print(f"next: bertline use {into}")
    print(f"next: bertline check, then: bertline run evaluate@{name} baseline@{added['baseline'][0]}")


@cli.command(**listed(MAKE, "bertline init tickets", "bertline init tickets --remote /srv/dvc"))
def init(
    folder: Annotated[Path, typer.Argument(help="a folder that is new or empty")],
    remote: Annotated[Path | None, typer.Option(help="the folder of DVC's remote; by default FOLDER.remote")] = None,
) -> None:
    """Make an empty project of your own: params.yaml, the graph, small encoders, git, DVC with a local remote.

    It needs neither the samples nor the code of this checkout; `bertline` of this installation works in it.
    """
    from pipelines.graph import new_project

    for sentence in new_project.create(folder, remote or folder.with_name(f"{folder.name}.remote")):
        print(printable(sentence))
    print(f"next: cd {folder}; git commit -m begin; bertline new FILE")


@cli.command(**listed(MAKE, "bertline add tickets-march.csv --to tickets"))
def add(
    file: Annotated[
        Path, typer.Argument(help="a CSV, TSV, JSONL, Parquet or xlsx file with the columns of the corpus")
    ],
    to: Annotated[str, typer.Option("--to", help="an entry of prepare whose corpus is custom", autocompletion=CORPORA)],
) -> None:
    """Append the new rows of FILE to a corpus of your own.

    Rows that repeat a text of the corpus, and rows similar to one of its test, are left out and counted. A row that the
    entry cannot have, such as one with an unknown label, is an error, and then nothing is added.
    """
    from pipelines.core import params
    from pipelines.data import additions
    from pipelines.entries.prepare import Prepare
    from pipelines.graph import checking

    checking.require_entry(to, "prepare")
    addition = additions.add(file, to, params.entry("prepare", to, Prepare))
    print("\n".join(map(printable, additions.sentences(addition))))
    if not addition.rows:
        return
    if addition.target.with_name(f"{addition.target.name}.dvc").exists():
        print(f"next: dvc add {addition.target}")
    print(f"next: bertline run {' '.join(additions.stages(to, params.read()))}")
    print(f"which prepares, encodes, trains and scores {to} anew; entries of other corpora stay as they are")


def _named(words: list[str]) -> tuple[list[Path], str]:
    """The files, and the name of the entries: the last word if it is no file, or else the name of the first file."""
    paths = [Path(word) for word in words]
    if any("://" in word for word in words):
        raise InputError(f"{words[0]}: an address; fetch the file first, for example by `dvc import-url`")
    if len(paths) > 1 and not paths[-1].exists() and not paths[-1].suffix:
        return paths[:-1], words[-1]
    first = paths[0].resolve()
    stem = (first.parent if len(paths) > 1 else first).stem
    name = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "-" for c in stem).strip("-")
    return paths, name or "mine"
