"""Pages that show each command's usage, the keys of its JSON and real output, of a project that is made for them."""

import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import typer

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"
WIDE = 100
HEAD = """# {panel}

The commands of this group: usage, the keys of `--json`, and what they print in a small project;
written by `python docs/reference.py`. Times, digests and keys stand for others.
[commands.md](../commands.md) has all groups, options and exit statuses.
"""
# the walk: commands in their order, as a person would type them; those that begin with a space are not shown
WALK = """
bertline init claims
 cd claims
 head -n 241 {samples}/entailment/train.tsv > claims.tsv
 head -n 1 {samples}/entailment/train.tsv > march.tsv
 tail -n 20 {samples}/entailment/train.tsv >> march.tsv
bertline new claims.tsv --yes
bertline check
bertline check --json
 sed -i 's/^baseline:$/baseline:\\n  claims-words: {{task: claims, ngrams: [4, 4]}}/' params.yaml
bertline run baseline@claims-baseline --dry
bertline run baseline@claims-baseline baseline@claims-words
 rm -r artifacts/timings
bertline table
bertline table --json
bertline diff claims-words claims-baseline --rows 1
bertline why prepare@claims
bertline add march.tsv --to claims
 head -n 2 march.tsv > april.tsv
bertline add april.tsv --to claims --json
bertline why prepare@claims
 cp params.yaml other.yaml
bertline use other.yaml
bertline predict claims@champion "The bank lowered its rate." "The bank closed."
bertline receipt-key receipts.key
bertline jobs .
bertline promote claims
bertline trigger retrain/weekly
bertline down
"""
# what another machine or another day would print otherwise
CHANGING = {
    r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?(\+00:00)?": "2026-11-28T09:00:00+00:00",
    r"key-1-[0-9a-f]{8}": "key-1-0123abcd",
    r"\d+ files of code": "38 files of code",
    r"\b[0-9a-f]{32}\b": "0123456789abcdef0123456789abcdef",
}
OURS = ("BERTLINE_", "MLFLOW_", "PREFECT_", "RAY_", "DVC_", "GIT_")  # variables that would change what is printed


class Shown(NamedTuple):
    """A command, its exit status, and what it printed on both streams."""

    line: str
    status: int
    out: str


def pages() -> dict[str, str]:
    """The text of each page by its file name; takes the time of the walk."""
    from flows.cli import cli, panels

    group: Any = typer.main.get_command(cli)
    context = typer.Context(group, info_name="bertline")
    shown: dict[str, list[Shown]] = {}
    for step in walked():
        shown.setdefault(shlex.split(step.line)[1], []).append(step)
    texts = {}
    for panel in panels.PANELS:
        listed = {name: group.commands[name] for name in group.list_commands(context)}
        of_panel = {name: command for name, command in listed.items() if vars(command)["rich_help_panel"] == panel}
        entries = [_entry(name, command, shown.get(name, [])) for name, command in of_panel.items()]
        texts[f"{panel.lower().replace(' ', '-')}.md"] = HEAD.format(panel=panel) + "".join(entries)
    return texts


def walked() -> Iterator[Shown]:
    """The commands of the walk that are shown, each run in a project of its own place."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    environment |= {"BERTLINE_QUIET": "1", "NO_COLOR": "1", "COLUMNS": str(WIDE), "OMP_NUM_THREADS": "1"}
    with TemporaryDirectory(prefix="bertline-reference-") as folder:
        place = Path(folder)
        for line in WALK.format(samples=ROOT / "samples").strip().splitlines():
            if line.startswith(" cd "):
                place /= line.removeprefix(" cd ")
                continue
            command = line.strip().replace("bertline", f"{sys.executable} -m flows.cli", 1)
            ended = subprocess.run(
                command, shell=True, cwd=place, env=environment, stdout=-1, stderr=-2, text=True, check=False
            )
            if not line.startswith(" "):
                yield Shown(line, ended.returncode, normal(ended.stdout))
            elif ended.returncode:
                raise RuntimeError(f"{line}: status {ended.returncode}\n{ended.stdout}")


def normal(text: str) -> str:
    """The text with what changes from run to run replaced, and without spaces at the ends of lines."""
    for changing, constant in CHANGING.items():
        text = re.sub(changing, constant, text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def _entry(name: str, command: Any, shown: list[Shown]) -> str:
    """The part of a page about one command."""
    arguments = [
        metavar if param.required or metavar.startswith("[") else f"[{metavar}]"
        for param in command.params
        if param.param_type_name == "argument" and (metavar := param.metavar or param.name.upper())
    ]
    json_help = [param.help for param in command.params if "--json" in param.opts]
    paragraphs = [" ".join(paragraph.split()) for paragraph in command.help.split("\n\n")]
    paragraphs += [f"`--json` prints {keys.removeprefix('print JSON: ')}." for keys in json_help]
    text = "".join(f"\n{textwrap.fill(paragraph, WIDE)}\n" for paragraph in paragraphs)
    usage = f"`{' '.join(['bertline', name, '[OPTIONS]', *arguments])}`"
    return f"\n## {name}\n\n{usage}\n{text}{_console(command, shown)}"


def _console(command: Any, shown: list[Shown]) -> str:
    """Commands with their output; without them, the examples of the command's help."""
    if not shown:
        examples = [line.strip() for line in command.epilog.splitlines()[1:]]
        return "\n```sh\n" + "".join(f"{line}\n" for line in examples) + "```\n"
    blocks = []
    for step in shown:
        status = f"# exit status {step.status}\n" if step.status else ""
        blocks.append(f"$ {step.line}\n{step.out}{status}")
    return "\n```console\n" + "".join(blocks) + "```\n"


def write(folder: Path) -> None:
    """Write the pages into a folder."""
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(FOLDER)
