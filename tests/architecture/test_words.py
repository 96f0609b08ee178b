"""What users meet is called what the literature calls it (docs/glossary.md): the words of old are gone."""

import re
import subprocess
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
HISTORY = ("CHANGELOG.md", "docs/log.md", "docs/decisions/", "tests/architecture/test_words.py")
TEXT = (".py", ".md", ".yaml", ".toml", ".txt")


def found(text: str) -> list[str]:
    return [
        f"{hit.group()!r}: say {word}" for old, word in OLD.items() for hit in re.finditer(old, text, re.IGNORECASE)
    ]


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    kept = [name for name in listed if name.endswith(TEXT) and not name.startswith((*HISTORY, "samples/"))]
    return [ROOT / name for name in kept if (ROOT / name).is_file() and not name.endswith("vocab.txt")]


def test_old_words_are_gone() -> None:
    files = tracked()
    assert len(files) > 200
    said = {path.relative_to(ROOT).as_posix(): found(path.read_text(encoding="utf-8")) for path in files}
    assert {name: words for name, words in said.items() if words} == {}


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
    assert len(found(planted)) == 1
