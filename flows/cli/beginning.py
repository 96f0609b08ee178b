"""The commands for a corpus of one's own: look at its files, write its entries, add rows; and an empty project."""

import shlex
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.arguments import group, json_with, print_answer, tell
from flows.cli.completion import of_sections
from flows.cli.panels import MAKE, listed
from pipelines.core.errors import UsageError, printable

if TYPE_CHECKING:
    from pipelines.data.additions import Addition
    from pipelines.data.inspection import Inspection
    from pipelines.data.snapshots import Snapshot

cli = group()
CORPORA = of_sections("prepare")
PARAMS = Path("params.yaml")  # params.FILE; a shell's completion imports this module, and must not wait
REMOTE = "the folder of DVC's remote; by default FOLDER.remote, or bertline.remote if FOLDER is not in ASCII"
Query = Annotated[str, typer.Option(help="of a database: the query that gives the rows, in an order that stays")]


@cli.command(**listed(MAKE, "bertline new tickets.csv", "bertline new mails/train.csv mails/test.csv"))
def new(
    files: Annotated[
        list[str],
        typer.Argument(help="files, a folder, s3://BUCKET/KEY or a database, and a name for the entries if you like"),
    ],
    text: Annotated[str, typer.Option(help="the column of the texts")] = "",
    label: Annotated[str, typer.Option(help="the column of the labels")] = "",
    sheet: Annotated[str, typer.Option(help="the sheet of a workbook")] = "",
    query: Query = "",
    into: Annotated[Path, typer.Option(help="the params file to write into; made if it is not there")] = PARAMS,
    yes: Annotated[bool, typer.Option("--yes", help="ask nothing")] = False,
    as_json: Annotated[bool, json_with("file, source, entries, kind, language, rows, labels, findings, next")] = False,
) -> None:
    """Look at FILES, say what is in them, and write the entries that make a model of them.

    CSV, TSV, JSONL, JSON, Parquet, xlsx, SQuAD's form, CoNLL's columns, or a folder with one folder for each label.
    `bertline new tickets.csv` writes entries named tickets; `bertline new mails/train.csv mails/test.csv` names them
    after their folder, and a last word gives another name.
    Rows in S3 (s3://BUCKET/KEY) or a database (postgresql://USER@HOST/DATABASE, sqlite:///FILE, with --query) are
    copied beside the params file; the copy is the corpus.
    """
    from pipelines.core import params
    from pipelines.data import snapshots
    from pipelines.graph import checking

    if into == params.FILE:
        checking.require_root()
    words, name = _named(files)
    params.require_name(name, "bertline new: NAME")
    with snapshots.beside(words, query, into.parent, name) as snapshot:
        answer = _entered(snapshot, name, (text, label, sheet), into, yes, as_json)
    print_answer(answer, as_json, _written)


def _entered(
    snapshot: "Snapshot", name: str, chosen: tuple[str, str, str], into: Path, yes: bool, as_json: bool
) -> dict[str, Any]:
    """Inspect files, and write their entries into a params file; returns the answer of `new`.

    `chosen` names the column of the texts, that of the labels, and the sheet.
    """
    from flows.cli import text_inputs
    from pipelines.core import params
    from pipelines.data import inspection
    from pipelines.graph import new_entries

    paths = snapshot.files
    _require_folder(paths, name)
    seen = inspection.inspect(paths, *chosen)
    sentences = [f"{snapshot.origin}: copied to {snapshot.place}"] if snapshot.place else []
    sentences += inspection.sentences(seen)
    for sentence in sentences:
        tell(sentence, as_json)
    if not yes and text_inputs.is_terminal():
        seen = _confirmed(seen, paths, chosen, f"write the entries {name} into {into}?", as_json)
    for sentence in [*inspection.require_prepared(seen), *new_entries.add_split(seen)]:
        tell(sentence, as_json)
        sentences.append(sentence)
    added = new_entries.entries(name, seen, str(snapshot))
    new_entries.write(into, added)
    keys = {section: key for section, (key, _, _) in added.items()}
    answer: dict[str, Any] = {"file": str(into), "source": seen.keys["source"], "entries": keys, "kind": seen.kind}
    answer |= {"language": seen.keys["language"], "rows": seen.rows, "labels": dict(seen.labels)}
    answer |= {"findings": sentences}
    answer["next"] = [f"dvc add {snapshot.place}"] if snapshot.place and Path(".dvc").is_dir() else []
    answer["next"] += [f"bertline use {into}"] if into != params.FILE else []
    answer["next"] += ["bertline check", f"bertline run evaluate@{name} baseline@{keys['baseline']}"]
    return answer


def _confirmed(
    seen: "Inspection", paths: list[Path], chosen: tuple[str, str, str], question: str, as_json: bool
) -> "Inspection":
    """The files, seen with the columns that a person chooses. Raises UsageError if the person wants no entries."""
    from pipelines.data import inspection

    text, label, sheet = chosen
    if "columns" in seen.keys and not (text and label):
        columns = {ours: seen.keys["columns"].get(ours, ours) for ours in ("text", "label")}
        text = typer.prompt("the column of the texts", default=text or columns["text"], err=as_json)
        label = typer.prompt("the column of the labels", default=label or columns["label"], err=as_json)
        seen = inspection.inspect(paths, text, label, sheet or seen.keys.get("sheet", ""))
    if not typer.confirm(question, default=True, err=as_json):
        raise UsageError("nothing is written")
    return seen


def _written(answer: dict[str, Any]) -> str:
    """The entries that were written, and the commands that follow."""
    entries = ", ".join(f"{section}.{key}" for section, key in answer["entries"].items())
    *before, check, run = answer["next"]
    return "\n".join([f"{answer['file']}: {entries} are written", *_next(*before), *_next(f"{check}, then: {run}")])


def _next(*commands: str) -> list[str]:
    return [f"next: {command}" for command in commands]


@cli.command(**listed(MAKE, "bertline init tickets", "bertline init tickets --remote /srv/dvc"))
def init(
    folder: Annotated[Path, typer.Argument(help="a folder that is new or empty")],
    remote: Annotated[Path | None, typer.Option(help=REMOTE)] = None,
    as_json: Annotated[bool, json_with("folder, remote, next")] = False,
) -> None:
    """Make an empty project of your own: params.yaml, the graph, small encoders, git, DVC with a local remote.

    It needs neither the samples nor the code of this checkout; `bertline` of this installation works in it.
    """
    from pipelines.graph import new_project

    place = remote or new_project.default_remote(folder)
    for sentence in new_project.create(folder, place):
        tell(sentence, as_json)
    answer = {"folder": str(folder), "remote": str(place)}
    follows = [f"cd {shlex.quote(str(folder))}", "git commit -m begin", "bertline new FILE"]
    print_answer(answer | {"next": follows}, as_json, lambda _: "\n".join(_next("; ".join(follows))))


@cli.command(**listed(MAKE, "bertline add tickets-march.csv --to tickets"))
def add(
    file: Annotated[
        str,
        typer.Argument(
            help="a CSV, TSV, JSONL, JSON, Parquet or xlsx file with the corpus's columns, also in S3, or a database"
        ),
    ],
    to: Annotated[str, typer.Option("--to", help="an entry of prepare whose corpus is custom", autocompletion=CORPORA)],
    query: Query = "",
    as_json: Annotated[bool, json_with("file, added, left_out, labels, before, after, moved, next")] = False,
) -> None:
    """Append the new rows of FILE to a corpus of your own.

    Rows that repeat a text of the corpus, and rows similar to one of its test, are left out and counted. A row that the
    entry cannot have, such as one with an unknown label, is an error, and then nothing is added.

    Rows in S3 (s3://BUCKET/KEY), a file or a folder of one format, and those that --query gives of a database, are
    fetched first.
    """
    from pipelines.core import params
    from pipelines.data import additions, snapshots
    from pipelines.entries.prepare import Prepare
    from pipelines.graph import checking

    checking.require_entry(to, "prepare")
    with snapshots.table(file, query) as rows:
        addition = additions.add(rows.files[0], to, params.entry("prepare", to, Prepare), rows.origin)
        sentences = [*map(rows.shown, additions.sentences(addition))]
    follows = _after(addition, additions.stages(to, params.read()))
    if as_json:
        print_answer(additions.answer(addition) | {"next": follows}, as_json)
        return
    print("\n".join(map(printable, sentences)))
    if follows:
        print("\n".join(_next(*follows)))
        print(f"which prepares, encodes, trains and scores {to} anew; entries of other corpora stay as they are")


def _after(addition: "Addition", stages: list[str]) -> list[str]:
    """The commands that follow an addition; none if it added no row."""
    if not addition.rows:
        return []
    in_dvc = addition.target.with_name(f"{addition.target.name}.dvc").exists()
    return [*([f"dvc add {addition.target}"] if in_dvc else []), f"bertline run {' '.join(stages)}"]


def _require_folder(files: Sequence[Path], name: str) -> None:
    """Raise UsageError if the corpus would be a folder that holds this project, and all that stages write."""
    from pipelines.data import references

    folder = files[0].parent if len(files) > 1 else files[0]
    if references.holds_project(folder):
        moved = [str(Path(name, file.name)) for file in files] if len(files) > 1 else [name]
        move = f"mv {shlex.join([str(file) for file in files])} {name}" if len(files) > 1 else "move its folders there"
        raise UsageError(
            f"{folder}: {references.OF_PROJECT}: mkdir {name} && {move}, then: bertline new {shlex.join(moved)}"
        )


def _named(words: list[str]) -> tuple[list[str], str]:
    """The files, and the name of the entries: the last word if it is no file, or else the name of the first file."""
    last = words[-1]
    if len(words) > 1 and "://" not in last and not Path(last).exists() and not Path(last).suffix:
        return words[:-1], last
    first = PurePosixPath(words[0].partition("?")[0]) if "://" in words[0] else Path(words[0]).resolve()
    stem = (first.parent if len(words) > 1 else first).stem
    name = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "-" for c in stem).strip("-")
    return words, name or "mine"
