"""Write README's tables, docs/map.md, docs/tests.md and docs/commands.md from dvc.yaml, modules and commands."""

import ast
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
TOPS = ("flows", "bertline", "pipelines")
MAP_HEAD = """# Map

Every file of the code and its first line, written by `python docs/generate.py`. A folder of plugins
is its registry: its files are the corpora, tokenizers, objectives and methods that params.yaml can
name.
"""


# twenty changes, as a person would ask for them -> the file that each begins with
CHANGES = {
    "Read the rows of a corpus that is published": "pipelines/data/corpora/glue.py",
    "Read a new file format of a user's own rows": "pipelines/data/formats/records.py",
    "Let params.yaml take another key for fine-tuning": "pipelines/entries/finetune.py",
    "Warn of one more kind of dirty label while rows are prepared": "pipelines/data/doubts.py",
    "Cut Japanese text into words in another way": "pipelines/text/mecab.py",
    "Choose other tokens to mask": "pipelines/pretraining/masking.py",
    "Decay the learning rate along another curve": "pipelines/training/optim.py",
    "Weigh classes in the loss": "pipelines/training/losses.py",
    "Freeze other layers": "pipelines/training/strategies.py",
    "Write a new way to compress a model": "pipelines/compression/methods/drop_layers.py",
    "Round weights to int8 in another way": "pipelines/models/quantization/int8.py",
    "Show one more number in the report's table": "pipelines/reports/run_tables.py",
    "Score answers to questions otherwise": "pipelines/evaluation/answer_scores.py",
    "Add a rule that a challenger must pass": "pipelines/evaluation/gates.py",
    "Measure latency over other batches": "pipelines/measurement/model_process.py",
    "Choose between torch and ONNX otherwise": "pipelines/measurement/runtime_choice.py",
    "Change what an ONNX file holds": "pipelines/export/onnx_export.py",
    "Answer one more path over HTTP": "pipelines/serving/protocols/plain.py",
    "Start stages in another order": "pipelines/graph/executor.py",
    "Give `bertline` another command": "flows/cli/models.py",
}


TESTS_HEAD = """# Tests

Which file of tests shows which promise, written by `python docs/generate.py`. `make test` shows
every promise once. `make soak` repeats what chance decides: in files with a mark it tries more
kills, seeds, mutants, files or combinations. Tests of a full disk mount a small one, which root
alone may: for another user they are skipped, and a green run shows nothing of a full disk.
"""


COMMANDS_HEAD = """# Commands

Every command of `bertline`, in the groups of `bertline --help`; written by
`python docs/generate.py`. The option `--help` of a command says more of each option, and
[reference/](reference/make.md) shows what each prints: [make](reference/make.md),
[compare](reference/compare.md), [decide](reference/decide.md), [serve](reference/serve.md),
[look after](reference/look-after.md).

- `--quiet` prints no progress, and `--debug` shows the traceback of an error. Both stand before or
  after a command's name.
- `--json` prints the answer alone as JSON on standard output; the help of each command names its
  keys. What is for a person, progress and errors go to standard error. `serve` and `quickstart`
  have no answer. A refusal (status 3), findings and drift are answers; of an error there is none.
- A failure is one sentence, marked `error:`, in red on a terminal (not if `NO_COLOR` is set).
- `--install-completion`, without a command, teaches your shell the names of commands, runs,
  models, versions and stages.

| status | meaning |
|---|---|
| 0 | the command did what was asked |
| 1 | it failed: a file, a row, a server; or `bertline doctor` found a problem |
| 2 | the command line or `params.yaml` is wrong; nothing was started |
| 3 | the gate refused a challenger, or a search found nothing that keeps the budget |
| 4 | `bertline watch`: the windows of a job drift |
| 130 | Ctrl-C |
"""


def stage_table() -> str:
    """Each stage of dvc.yaml, what it does, what it writes."""
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    lines = ["| stage | what it does | writes |", "|---|---|---|"]
    for name, stage in stages.items():
        body = stage.get("do", stage)
        outs = [next(iter(out)) for key in ("outs", "metrics") for out in body.get(key, [])]
        written = ", ".join(f"`{out.replace('${key}', 'NAME')}`" for out in outs)
        lines.append(f"| `{name}` | {body['desc']} | {written} |")
    return "\n".join(lines)


def first_line(file: Path) -> str:
    """What a module says of itself."""
    return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").splitlines()[0]


def packages() -> list[Path]:
    """The folders of the code, each before those inside it."""
    return sorted(init.parent for top in TOPS for init in (ROOT / top).rglob("__init__.py"))


def folder_tree() -> str:
    """The rooms of the code with their first lines, and inside them the folders of plugins; the map has all."""
    lines = []
    for folder in packages():
        depth = len(folder.relative_to(ROOT).parts) - 1
        if depth == 2 and "one file each" not in first_line(folder / "__init__.py"):
            continue
        lines.append(f"{'  ' * depth + folder.name + '/':<18} {first_line(folder / '__init__.py')}")
    return "```\n" + "\n".join(lines) + "\n```"


def file_map() -> str:
    """docs/map.md: where twenty changes begin; and a table for each folder, a row for each of its files."""
    parts = [MAP_HEAD, "\n## Where a change begins\n\n| change | file |\n|---|---|\n"]
    parts += [f"| {change} | [{file}](../{file}) |\n" for change, file in CHANGES.items()]
    for folder in packages():
        place = folder.relative_to(ROOT).as_posix()
        parts.append(f"\n## {place}\n\n| file | {cell(folder / '__init__.py')} |\n|---|---|\n")
        files = sorted(file for file in folder.glob("*.py") if file.name != "__init__.py")
        parts += [f"| [{file.name}](../{place}/{file.name}) | {cell(file)} |\n" for file in files]
    return "".join(parts)


def test_tables() -> str:
    """docs/tests.md: a table for each folder of tests; tests/unit mirrors pipelines/, and has a row for each folder."""
    parts = [TESTS_HEAD]
    for folder in sorted(path for path in (ROOT / "tests").iterdir() if list(path.glob("test_*.py"))):
        parts.append(f"\n## tests/{folder.name}\n\n| file | shows | soak |\n|---|---|---|\n")
        for file in sorted(folder.glob("test_*.py")):
            more = "more" if "mark.soak" in file.read_text(encoding="utf-8") else ""
            parts.append(f"| [{file.name}](../tests/{folder.name}/{file.name}) | {cell(file)} | {more} |\n")
    parts.append("\n## tests/unit\n\n| folder | what its files are about |\n|---|---|\n")
    for folder in sorted(
        path for path in (ROOT / "tests/unit").iterdir() if path.is_dir() and list(path.rglob("test_*.py"))
    ):
        subjects = ", ".join(
            sorted(file.stem.removeprefix("test_").replace("_", " ") for file in folder.rglob("test_*.py"))
        )
        parts.append(f"| [{folder.name}](../tests/unit/{folder.name}) | {subjects} |\n")
    return "".join(parts)


def commands_page() -> str:
    """docs/commands.md: the exit statuses, and a table for each group with usage, options and an example."""
    import typer

    from flows.cli import cli, panels

    group: Any = typer.main.get_command(cli)
    context = typer.Context(group, info_name="bertline")
    parts = [COMMANDS_HEAD]
    for panel in panels.PANELS:
        parts.append(f"\n## {panel}\n\n| command | what it does | options | example |\n|---|---|---|---|\n")
        for name in group.list_commands(context):
            if vars(group.commands[name])["rich_help_panel"] == panel:
                parts.append(_command_row(name, group.commands[name]))
    return "".join(parts)


def _command_row(name: str, command: Any) -> str:
    arguments = [
        (param.metavar or param.name.upper()) if param.required else f"[{(param.metavar or param.name.upper())}]"
        for param in command.params
        if param.param_type_name == "argument"
    ]
    switches = [param.opts[0] for param in command.params if param.param_type_name == "option"]
    options = ", ".join(f"`{switch}`" for switch in switches if switch not in ("--quiet", "--debug"))
    example = command.epilog.splitlines()[-1].strip()
    says = " ".join(command.help.split())
    cells = (f"`{' '.join([name, *arguments])}`", says, options, f"`{example}`")
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def cell(file: Path) -> str:
    """The first line of a file, as a cell of a table."""
    return first_line(file).replace("|", "\\|")


def readme(text: str) -> str:
    """`text` with what stands between its markers made anew."""
    for name, content in {"stages": stage_table(), "tree": folder_tree()}.items():
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        head, rest = text.split(start)
        text = f"{head}{start}{content}\n{end}{rest.split(end)[1]}"
    return text


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(readme(path.read_text(encoding="utf-8")), encoding="utf-8")
    (ROOT / "docs" / "map.md").write_text(file_map(), encoding="utf-8")
    (ROOT / "docs" / "tests.md").write_text(test_tables(), encoding="utf-8")
    (ROOT / "docs" / "commands.md").write_text(commands_page(), encoding="utf-8")
