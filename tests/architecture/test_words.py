"""Words of the field: what users meet is called what the literature calls it, and a variable says what it holds."""

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.support.places import ROOT

# an old word -> today's
OLD = {
    r"\bfloors?\b": "baseline, or room",
    r"hidden[ -]words?\b": "masked tokens",
    r"rows[ _]side[ _]by[ _]side|side_by_side": "sequence packing",
    r"\bused[ _]words?\b": "embedding subset",
    r"(kind|rows) `?matched|MatchedBatches": "positive pairs",
    r"(trained|frozen) prefix|prefix\.(taken|kept)": "frozen features",
    r"models[./]products|oneDNN's products": "oneDNN linear layers",
    r"\bcrown|\breigns?\b": "promotion history",
    r"\blooks:": "evaluations",
}
# they tell of then
HISTORY = ("CHANGELOG.md", "docs/log/", "docs/decisions/", "tests/architecture/test_words.py")
TEXT = (".py", ".md", ".yaml", ".toml", ".txt")


def old_words(text: str) -> list[str]:
    return [
        f"{hit.group()!r}: say {word}" for old, word in OLD.items() for hit in re.finditer(old, text, re.IGNORECASE)
    ]


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    names = [name for name in listed if name.endswith(TEXT) and not name.startswith((*HISTORY, "samples/"))]
    return [ROOT / name for name in names if (ROOT / name).is_file() and not name.endswith("vocab.txt")]


def test_old_words_are_gone() -> None:
    files = tracked()
    assert len(files) > 200
    hits = {path.relative_to(ROOT).as_posix(): old_words(path.read_text(encoding="utf-8")) for path in files}
    assert {name: words for name, words in hits.items() if words} == {}


PLANTED = [
    "the floor of the task",
    "hidden words",
    "rows side by side",
    "used_words.only",
    "kind `matched`",
    "a frozen prefix",
    "from pipelines.models.products",
    "registry.crown(version)",
    "looks: 5",
]


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_old_word_is_found(planted: str) -> None:
    assert len(old_words(planted)) == 1


# names that say nothing of what a variable holds; they may live for a line or two
VAGUE = {"found", "each", "own", "said", "told", "given", "kept", "asked"}
LINES = 3


def vague(source: str) -> Iterator[str]:
    """Variables with such a name that live over LINES lines of a function."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        lines: dict[str, set[int]] = {}
        for inner in ast.walk(node):
            name = inner.arg if isinstance(inner, ast.arg) else inner.id if isinstance(inner, ast.Name) else ""
            if name in VAGUE:
                lines.setdefault(name, set()).add(inner.lineno)  # type: ignore[attr-defined]
        for name, at in lines.items():
            if max(at) - min(at) >= LINES:
                yield f"line {min(at)}: {name} lives {max(at) - min(at) + 1} lines; name what it holds"


@pytest.mark.parametrize("room", ["pipelines", "flows", "tests", "benchmarks"])
def test_a_variable_says_what_it_holds(room: str) -> None:
    files = [path for path in sorted((ROOT / room).rglob("*.py")) if ROOT / "tests/serving" not in path.parents]
    assert len(files) > 20
    lines = [f"{path.relative_to(ROOT)}: {line}" for path in files for line in vague(path.read_text(encoding="utf-8"))]
    assert lines == []


def test_a_planted_vague_variable_is_found() -> None:
    body = "def f(rows):\n    found = sum(rows)\n{}    return found\n"
    assert [*vague(body.format("    print()\n" * 2))] == ["line 2: found lives 4 lines; name what it holds"]
    assert [*vague(body.format("    print()\n"))] == []
    assert [*vague("def f(own):\n    print()\n    print()\n    return own.x\n")] != []


# a docstring begins with its subject or an imperative, not with a clause that stands for one
OPENINGS = {"Of", "What", "Whether", "Who", "Which", "Where", "How", "That", "Those", "When", "If", "Why"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def openings(source: str) -> list[str]:
    """The first lines of docstrings that begin otherwise."""
    texts = [ast.get_docstring(node) for node in ast.walk(ast.parse(source)) if isinstance(node, DOCUMENTED)]
    return [text.splitlines()[0] for text in texts if text and text.split()[0].strip(",.:") in OPENINGS]


@pytest.mark.parametrize("room", ["pipelines", "bertline", "flows"])
def test_a_docstring_begins_with_its_subject(room: str) -> None:
    files = sorted((ROOT / room).rglob("*.py"))
    assert {path.relative_to(ROOT).as_posix(): openings(path.read_text(encoding="utf-8")) for path in files} == {
        path.relative_to(ROOT).as_posix(): [] for path in files
    }


def test_a_planted_opening_is_found() -> None:
    assert openings('"""That of the rows."""\ndef f():\n    """Whether it is so."""\n') == [
        "That of the rows.",
        "Whether it is so.",
    ]
    assert openings('"""The digest of the rows."""\ndef f():\n    """Return whether it is so."""\n') == []


# rooms with one file for each section of params.yaml, or for each flow; any other basename stands once
BY_NAME = ("entries", "stages", "flows")


def basenames_twice(files: Iterable[Path]) -> list[str]:
    """Basenames that stand twice outside the rooms that are named after the sections of params.yaml."""
    by_name: dict[str, list[Path]] = {}
    for file in files:
        if file.stem not in ("__init__", "__main__"):
            by_name.setdefault(file.stem, []).append(file)
    return sorted(
        name for name, places in by_name.items() if sum(place.parent.name not in BY_NAME for place in places) > 1
    )


def test_a_basename_stands_once() -> None:
    files = [file for top in ("pipelines", "bertline", "flows") for file in (ROOT / top).rglob("*.py")]
    assert basenames_twice(files) == []
    assert basenames_twice([Path("pipelines/core/tables.py"), Path("pipelines/reports/tables.py")]) == ["tables"]
    assert basenames_twice([Path("pipelines/entries/tune.py"), Path("flows/tune.py")]) == []


# -ed, and the irregular ones that are in use; a class is a noun, and two of these in two modules say the least
PARTICIPLE = re.compile(r"[A-Z][a-z]*[^e]ed|Given|Gone|Held|Kept|Known|Lost|Made|Read|Seen|Sent|Taken|Told|Written")


def participles_twice(sources: Iterable[str]) -> list[str]:
    """Public classes of two modules with one name that is a participle."""
    trees = (ast.parse(source) for source in sources)
    names = [node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    return sorted(name for name in {*names} if names.count(name) > 1 and PARTICIPLE.fullmatch(name))


def test_a_participle_names_no_class_of_two_modules() -> None:
    files = [file for top in ("pipelines", "bertline", "flows") for file in (ROOT / top).rglob("*.py")]
    assert participles_twice(file.read_text(encoding="utf-8") for file in files) == []
    assert participles_twice(["class Stored: ...", "class Stored: ..."]) == ["Stored"]
    assert participles_twice(["class Stored: ...\nclass Params: ...", "class Kept: ...\nclass Params: ..."]) == []
