"""The layers are a rule, not a hope: an import may only point down, a vendor has one door, a file stays readable."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.places import ROOT

LAYERS = [  # lowest first; rooms in one set do not know each other
    {"core"},
    {"entries"},
    {"data", "text", "evaluation", "tracking", "reports"},
    {"models"},
    {"checkpoints", "acceleration"},
    {"inference"},
    {"export"},
    {"measurement"},
    {"training"},
    {"pretraining"},
    {"objectives"},
    {"compression"},
    {"serving", "scoring"},
    {"stages"},
    {"graph"},
    {"search", "lifecycle"},
    {"bertline"},
    {"flows"},
]
RANK = {folder: rank for rank, layer in enumerate(LAYERS) for folder in layer}
DOORS: dict[str, tuple[str, ...]] = {
    "mlflow": ("pipelines/tracking/",),
    "prefect": ("flows/",),
    "optuna": ("pipelines/search/param_search.py",),
    "dvc": ("pipelines/graph/",),
    "ray": (
        "pipelines/training/distributed.py",
        "pipelines/training/workers.py",
        "pipelines/serving/",
        "pipelines/scoring/batch_scoring.py",
        "pipelines/scoring/node_scorer.py",
        "pipelines/scoring/ray_scorers.py",
        "pipelines/graph/on_ray/driver.py",
    ),
    "boto3": ("pipelines/core/s3_objects.py",),
    "sqlalchemy": ("pipelines/data/database_rows.py",),
    "fugashi": ("pipelines/text/",),
    "matplotlib": ("pipelines/reports/",),
    "python_calamine": ("pipelines/data/formats/workbooks.py",),
}
HEAVY = {
    "torch",
    "transformers",
    "ray",
    "mlflow",
    "prefect",
    "matplotlib",
    "sklearn",
    "pandas",
    "onnxruntime",
    "optuna",
}
# rooms whose modules import nothing heavy when they are imported
LIGHT = {"core", "entries", "data", "text", "evaluation", "reports", "stages", "graph", "bertline"}
SHADOWING = {"tokenize", "types", "code", "select", "queue", "profile", "statistics", "io", "json", "random"}
FILES = sorted(p.relative_to(ROOT) for top in ("pipelines", "bertline", "flows") for p in (ROOT / top).rglob("*.py"))


def imports(tree: ast.AST, nested: bool = True) -> Iterator[str]:
    """Modules that a file imports; without `nested`, only those of its top level."""
    for node in ast.walk(tree) if nested else tree.body:  # type: ignore[attr-defined]
        if isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")
            yield from (f"{node.module}.{alias.name}" for alias in node.names if not node.level)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def room_of(place: Path) -> str:
    """The folder that ranks a file: pipelines/models/heads.py is of models."""
    return place.parts[1] if place.parts[0] == "pipelines" and len(place.parts) > 2 else place.parts[0]


# in Ray's worker processes, which run nothing else: a port that is written into Ray (docs/private-names.md)
REPLACED = {"tls_utils.add_port_to_grpc_server"}


def patches(tree: ast.AST) -> Iterator[str]:
    """Where something of a library is replaced, and so for the whole process."""
    imported = {
        (alias.asname or alias.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete):
            targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("setattr", "delattr"):
            targets = [ast.Attribute(node.args[0], "")]
        else:
            continue
        for target in targets:
            root: ast.AST = target
            while isinstance(root, ast.Attribute):
                root = root.value
            ours = isinstance(target, ast.Attribute) and ast.unparse(target) in REPLACED
            if isinstance(target, ast.Attribute) and isinstance(root, ast.Name) and root.id in imported and not ours:
                yield f"{ast.unparse(node)} replaces what every user of it shares"


# where names come from a registry or an archive, which others write: pipelines.core.paths.below joins them
WRITTEN_BY_OTHERS = ("pipelines/tracking/", "pipelines/data/formats/")


def joins(tree: ast.AST) -> Iterator[str]:
    """Where a path is joined with a name that is no constant: `folder / name`, `folder.joinpath(name)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            names = [node.right]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".joinpath", "path.join")):
            names = node.args
        else:
            continue
        if any(isinstance(name, ast.Name | ast.Attribute) and not ast.unparse(name).isupper() for name in names):
            yield f"{ast.unparse(node)} may lead out of its folder: paths.below(folder, name)"


# what a stage or a flow reads and hands down
READ_ABOVE = {"params.read", "params.entry", "resources.read"}
ENVIRONMENT = {"os.environ", "os.getenv", "os.getcwd", "Path.cwd"}
# who reads the environment, since it is of the whole process: its terminal, its threads, a vendor's address and name
READ_ENVIRONMENT = (
    "pipelines/__init__.py",
    "pipelines/core/progress.py",
    "pipelines/core/stage.py",
    "pipelines/core/threads.py",
    "pipelines/data/fetch.py",
    "pipelines/tracking/",
    "pipelines/training/workers.py",
    "pipelines/measurement/model_process.py",
    "pipelines/serving/deployment.py",
    "pipelines/serving/haproxy.py",
    "pipelines/serving/ray_proxy.py",
    "pipelines/stages/",
    "pipelines/graph/",
    "flows/",
)


def reads(place: Path, tree: ast.AST) -> Iterator[str]:
    """What a file below the stages reads, and should be given."""
    below = RANK.get(room_of(place), 0) < RANK["stages"] and room_of(place) != "core"
    for node in ast.walk(tree):
        name = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
        if below and name in READ_ABOVE:
            yield f"{name}: a stage or a flow reads it and hands it down"
        if name in ENVIRONMENT and not str(place).startswith(READ_ENVIRONMENT):
            yield f"{name}: it is read at {', '.join(READ_ENVIRONMENT)} alone"


# params.yaml has a section for each file of entries/, and `params` reads the whole of it
NAMED_IN_CORE = {"pipelines/core/params.py": "pipelines.entries"}


def named_above(place: Path, tree: ast.AST) -> Iterator[str]:
    """Rooms above that a file of core names in a string, from which it would import them."""
    strings = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    for name in strings:
        top, _, rest = name.partition(".")
        named = top == "pipelines" and rest.split(".")[0] in RANK and name.replace(".", "").replace("_", "").isalnum()
        allowed = name.startswith("pipelines.core") or NAMED_IN_CORE.get(str(place)) == name
        if room_of(place) == "core" and named and not allowed:
            yield f"{name!r}: core names no room above it"


def violations(place: Path, source: str) -> list[str]:
    """Every rule that the file at `place` breaks, as sentences."""
    tree, here, lines = ast.parse(source), room_of(place), []
    for name in imports(tree):
        top, *rest = name.split(".")
        if name.startswith("."):
            lines.append(f"{place}: relative import {name}")
        if top in ("flows", "bertline") and RANK[top] > RANK.get(here, 0):
            lines.append(f"{place} imports {name}: nothing below may depend on {top}/")
        if top == "pipelines" and rest and rest[0] in RANK and rest[0] != here and RANK[rest[0]] >= RANK.get(here, 0):
            lines.append(f"{place} imports {name}: {here} may not know {rest[0]}")
        if top in DOORS and not str(place).startswith(DOORS[top]):
            lines.append(f"{place} imports {top}: its door is {' or '.join(DOORS[top])}")
    if here in LIGHT:
        heavy = {name.split(".")[0] for name in imports(tree, nested=False)} & HEAVY
        lines += [f"{place} imports {name} at its top: import it where it is used" for name in sorted(heavy)]
    limit = 80 if here == "stages" else 60 if here == "flows" and "@flow(" in source else 300
    if len(source.splitlines()) > limit:
        lines.append(f"{place}: {len(source.splitlines())} lines, over {limit}")
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.end_lineno or 0) - node.lineno >= 40:
            lines.append(f"{place}: {node.name} has over 40 lines")
    lines += [f"{place}: {patched}" for patched in patches(tree)]
    lines += [f"{place}: {read}" for read in reads(place, tree)]
    lines += [f"{place}: {named}" for named in named_above(place, tree)]
    if str(place).startswith(WRITTEN_BY_OTHERS):
        lines += [f"{place}: {joined}" for joined in joins(tree)]
    if not ast.get_docstring(tree):
        lines.append(f"{place}: its first line must say what it is")
    if place.stem in SHADOWING:
        lines.append(f"{place}: its name shadows the standard library")
    return lines


@pytest.mark.parametrize("place", FILES, ids=str)
def test_a_file_keeps_the_rules(place: Path) -> None:
    assert violations(place, (ROOT / place).read_text(encoding="utf-8")) == []


def test_every_package_has_a_rank_among_the_layers() -> None:
    """No room without a rank, no rank without a room."""
    assert {room_of(place) for place in FILES} - {"pipelines"} == set(RANK)


LONG = '"""x"""\n' + "x = 1\n" * 300
PLANTED = {
    "an import that points up": (
        "pipelines/core/a.py",
        '"""x"""\nfrom pipelines.models import folder\n',
        "may not know",
    ),
    "an import beside": ("pipelines/text/a.py", '"""x"""\nimport pipelines.data.expectations\n', "may not know"),
    "an import of flows": ("pipelines/stages/a.py", '"""x"""\nfrom flows import retrain\n', "depend on flows"),
    "an import of the Python door": ("pipelines/search/a.py", '"""x"""\nimport bertline\n', "depend on bertline"),
    "an import of flows by the door": ("bertline/a.py", '"""x"""\nimport flows.cli\n', "depend on flows"),
    "a vendor past its door": ("pipelines/stages/a.py", '"""x"""\ndef f():\n    import mlflow\n', "its door is"),
    "ray in the loop": ("pipelines/training/loop.py", '"""x"""\nimport ray.train\n', "its door is"),
    "a heavy import on top": ("pipelines/stages/a.py", '"""x"""\nimport torch\n', "where it is used"),
    "a relative import": ("pipelines/core/a.py", '"""x"""\nfrom . import paths\n', "relative import"),
    "a long file": ("pipelines/core/a.py", LONG, "over 300"),
    "a long stage": ("pipelines/stages/a.py", '"""x"""\n' + "x = 1\n" * 80, "over 80"),
    "a flow with logic": ("flows/a.py", '"""x"""\n@flow(name="a")\ndef a():\n' + "    x = 1\n" * 58, "over 60"),
    "a long function": ("pipelines/core/a.py", '"""x"""\ndef f():\n' + "    x = 1\n" * 40, "over 40 lines"),
    "a file that does not say what it is": ("pipelines/core/a.py", "x = 1\n", "first line"),
    "a library's function replaced": (
        "pipelines/models/a.py",
        '"""x"""\nfrom torch import nn\ndef f(ours):\n    nn.functional.dropout = ours\n',
        "replaces what every user",
    ),
    "a library's class changed": (
        "pipelines/models/a.py",
        '"""x"""\nfrom torch.nn import Linear\ndef f(ours):\n    setattr(Linear, "forward", ours)\n',
        "replaces what every user",
    ),
    "the room above": (
        "pipelines/acceleration/a.py",
        '"""x"""\nfrom pipelines.training import batches\n',
        "may not know",
    ),
    "a room beside": (
        "pipelines/checkpoints/a.py",
        '"""x"""\nfrom pipelines.acceleration import apply\n',
        "may not know",
    ),
    "a path that others wrote": (
        "pipelines/tracking/a.py",
        '"""x"""\ndef f(folder, path):\n    return folder / path\n',
        "may lead out of its folder",
    ),
    "a path that others wrote, joined": (
        "pipelines/data/formats/a.py",
        '"""x"""\nimport os\ndef f(folder, name):\n    return os.path.join(folder, name)\n',
        "may lead out of its folder",
    ),
    "params read below the stages": (
        "pipelines/inference/a.py",
        '"""x"""\nfrom pipelines.core import resources\nTHREADS = resources.read().threads\n',
        "hands it down",
    ),
    "the environment read in a room": (
        "pipelines/compression/a.py",
        '"""x"""\nimport os\nREMOTE = bool(os.environ.get("RAY_ADDRESS"))\n',
        "os.environ: it is read at",
    ),
    "a room above, by its name": (
        "pipelines/core/a.py",
        '"""x"""\nPACKAGE = "pipelines.data.corpora"\n',
        "core names no room above",
    ),
    "a shadowing name": ("pipelines/stages/tokenize.py", '"""x"""\n', "shadows"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_found(name: str) -> None:
    place, source, sentence = PLANTED[name]
    lines = violations(Path(place), source)
    assert any(sentence in line for line in lines), lines
