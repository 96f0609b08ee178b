"""Pages that show each command's usage, the keys of its JSON and real output, of a project that is made for them."""

import os
import re
import shlex
import sys
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import typer

from pipelines.graph import forkserver

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"
WIDE = 100
HEAD = """# {panel}

The commands of this group: usage, the keys of `--json`, and what they print in a small project;
written by `python docs/reference.py`. Times, digests and keys are placeholders.
[commands.md](../commands.md) has all groups, options and exit statuses.
"""
# The walk: commands in their order, as a person would type them; those that begin with a space are not shown.
WALK = """
bertline init claims
 cd claims
 git -c user.name=ann -c user.email=ann@example.org commit --quiet --message begin
 head -n 241 {samples}/entailment/train.tsv > claims.tsv
 head -n 1 {samples}/entailment/train.tsv > march.tsv
 tail -n 20 {samples}/entailment/train.tsv >> march.tsv
bertline new claims.tsv --yes
bertline check
bertline check --json
 sed -i 's/^baseline:$/baseline:\\n  claims-words: {{task: claims, ngrams: [4, 4]}}/' params.yaml
 sed -i 's/epochs: .*/epochs: 1/; s/at_least: 0.0/at_least: 0.0, beats: false/' params.yaml
 echo 'resources: {{runtime: onnx, threads: 1}}' >> params.yaml
bertline run baseline@claims-baseline --dry
bertline run baseline@claims-baseline baseline@claims-words
 rm -r artifacts/timings
bertline table
bertline table --json
bertline diff claims-words claims-baseline --rows 1
bertline misread claims-baseline --rows 2
bertline why prepare@claims
{model}bertline add march.tsv --to claims
 head -n 2 march.tsv > april.tsv
bertline add april.tsv --to claims --json
bertline why prepare@claims
 cp params.yaml other.yaml
bertline use other.yaml
bertline receipt-key receipts.key
bertline trigger retrain/weekly
bertline down
 sed -i 's/^finetune:/finetun:/' params.yaml
bertline run
bertline doctor | grep -A 1 "params.yaml  "
"""
# The part with a trained model, which takes minutes.
MODEL = """\
bertline retrain claims
bertline versions claims
bertline approve claims --reason "read 20 rows"
bertline promote claims --reason "the first version"
bertline promote claims
bertline history claims
bertline history claims --at 2026-11-01
bertline lineage model claims@champion
bertline rollback claims
bertline prune claims
bertline predict claims "The bank lowered its rate." "The bank closed."
bertline tag claims "The bank lowered its rate."
bertline embed encoders/mini-en "The bank lowered its rate." "The bank closed."
bertline fill-mask encoders/mini-en "The [MASK] was late." --top 3
 echo 'text,text_pair' > pairs.csv
 echo 'The bank lowered its rate.,The bank closed.' >> pairs.csv
 echo 'The ferry was late because of fog.,The ferry was late.' >> pairs.csv
bertline score claims pairs.csv scored
bertline verify scored
bertline jobs .
 find state/logs -type f ! -name finetune@claims.log -delete
bertline status
"""
AHEAD = ("dvc.repo", "sklearn.svm")  # imported once
MODEL_AHEAD = ("mlflow.pyfunc", "pipelines.lifecycle.promotion", "transformers:AutoModel")
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?(\+00:00)?"
# what another machine or another day would print otherwise
CHANGING = {
    TIME: "2026-11-28T09:00:00+00:00",
    r"key-1-[0-9a-f]{8}": "key-1-0123abcd",
    r"\d+ files of code": "38 files of code",
    r"\b[0-9a-f]{64}\b": "0123456789abcdef" * 4,
    r"\b[0-9a-f]{40}\b": "0123456789abcdef0123456789abcdef01234567",
    r"\b[0-9a-f]{32}\b": "0123456789abcdef0123456789abcdef",
    r"\b[0-9a-f]{10}\b": "0123456789",
    r"[\d,]+ rows/s": "1,200 rows/s",
    r"@claims, [\d.]+ s": "@claims, 1.5 s",
    r"\b\d+(\.\d)? [MG]B": "12 MB",
}
# what a trained model answers, which depends on the processor
LEARNED = {r"\d+\.\d+": "0.5", r"not_entailment|entailment": "label", " +": " "}
OURS = ("BERTLINE_", "MLFLOW_", "PREFECT_", "RAY_", "DVC_", "GIT_")  # variables that would change what is printed
ADDED = {"BERTLINE_QUIET": "1", "BERTLINE_ACTOR": "ann", "NO_COLOR": "1", "COLUMNS": str(WIDE)}
ADDED |= {"OMP_NUM_THREADS": "1"}
NO_SERVICE = {"BERTLINE_SERVICE": "http://127.0.0.1:9"}  # of `status`; others would watch it


class Shown(NamedTuple):
    """A command, its exit status, and what it printed on both streams.

    `after` is the command before it, if the page has the same line above, with another answer.
    """

    line: str
    status: int
    out: str
    after: str = ""


def pages() -> dict[str, str]:
    """The text of each page by its file name; takes the time of the walk."""
    from flows.cli import cli, panels

    group: Any = typer.main.get_command(cli)
    context = typer.Context(group, info_name="bertline")
    shown: dict[str, list[Shown]] = {}
    for step in repeated(walked()):
        shown.setdefault(shlex.split(step.line)[1], []).append(step)
    texts = {}
    for panel in panels.PANELS:
        listed = {name: group.commands[name] for name in group.list_commands(context)}
        of_panel = {name: command for name, command in listed.items() if vars(command)["rich_help_panel"] == panel}
        entries = [described(*one) + _console(one[1], shown.get(one[0], [])) for one in of_panel.items()]
        texts[f"{panel.lower().replace(' ', '-')}.md"] = HEAD.format(panel=panel) + "".join(entries)
    return texts


def repeated(steps: Iterable[Shown]) -> Iterator[Shown]:
    """The steps; one that repeats a line says after which command."""
    lines = [""]
    for step in steps:
        yield step._replace(after=lines[-1]) if step.line in lines else step
        lines.append(step.line)


def walked(with_model: bool = True) -> Iterator[Shown]:
    """The commands of the walk that are shown, each run in a project of its own place; MODEL only `with_model`.

    They are forked from a process that has imported what they need; else most of their time would be imports.
    """
    with TemporaryDirectory(prefix="bertline-reference-") as folder:
        place, log = Path(folder), Path(folder) / "printed"
        walk = WALK.format(samples=ROOT / "samples", model=MODEL if with_model else "")
        with forkserver.WarmProcess(AHEAD + (MODEL_AHEAD if with_model else ()), place) as warm:
            for line in walk.strip().splitlines():
                if line.startswith(" cd "):
                    place /= line.removeprefix(" cd ")
                    continue
                status = _run(warm, line.strip(), place, log)
                printed = log.read_text(encoding="utf-8")
                if not line.startswith(" "):
                    yield Shown(line, status, normal(printed, line))
                elif status:
                    raise RuntimeError(f"{line}: status {status}\n{printed}")


def _run(warm: forkserver.WarmProcess, line: str, place: Path, log: Path) -> int:
    """The exit status of a line, which writes what it prints into `log`."""
    command = line.replace("bertline", "python -m flows.cli", 1).replace('"', "'")
    variables = NO_SERVICE if line == "bertline status" else {}
    with _environment():
        warm.start(forkserver.Command(line, command, str(place), str(log), (), variables))
    while True:
        for event in warm.events(60):
            if isinstance(event, forkserver.Ended):
                return event.status


@contextmanager
def _environment() -> Iterator[None]:
    """The environment of the walk, which its process has when it starts."""
    before = dict(os.environ)
    cleared = {name: value for name, value in before.items() if not name.startswith(OURS)}
    path = os.pathsep.join((str(Path(sys.executable).parent), before["PATH"]))
    _replace(cleared | ADDED | {"PATH": path})
    try:
        yield
    finally:
        _replace(before)


def _replace(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


def normal(text: str, command: str = "") -> str:
    """The text with what changes from run to run replaced, and without spaces at the ends of lines.

    Times of a date that the command names stay.
    """
    dates = "".join(f"(?!{date})" for date in re.findall(r"\d{4}-\d\d-\d\d", command))
    changing = {dates + pattern if pattern == TIME else pattern: constant for pattern, constant in CHANGING.items()}
    return "".join(f"{line.rstrip()}\n" for line in _replaced(text, changing).splitlines())


def unlearned(text: str) -> str:
    """The text without what a trained model says, for a comparison with what is printed on another machine."""
    return _replaced(text, LEARNED)


def _replaced(text: str, constants: dict[str, str]) -> str:
    for changing, constant in constants.items():
        text = re.sub(changing, constant, text)
    return text


def described(name: str, command: Any) -> str:
    """The part of a page about one command, without what it prints."""
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
    return f"\n## {name}\n\n{usage}\n{text}"


def _console(command: Any, shown: list[Shown]) -> str:
    """Commands with their output; without them, the examples of the command's help."""
    if not shown:
        examples = [line.strip() for line in command.epilog.splitlines()[1:]]
        return "\n```sh\n" + "".join(f"{line}\n" for line in examples) + "```\n"
    return "\n```console\n" + "".join(map(block, shown)) + "```\n"


def block(step: Shown) -> str:
    """A command, and what it printed."""
    after = f"# after {step.after}\n" if step.after else ""
    status = f"# exit status {step.status}\n" if step.status else ""
    return f"{after}$ {step.line}\n{step.out}{status}"


def write(folder: Path) -> None:
    """Write the pages into a folder."""
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(FOLDER)
