"""`bertline check --page`: all findings about params.yaml and the rows, legible on a phone and in the dark."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import commands, tickets
from tests.support.browser import Tab

ATTACK = "<script>document.title = 'attacked'</script>"
PARAMS = """prepare:
  tickets:
    corpus: custom
    source: tickets.csv
    delimiter: ";"
    columns: {text: body, label: category}
    labels: {names: [billing, bug, how-to]}
    split: {test: 0.2}
encode: {}
baseline:
  other: {task: tickets, split: dev}
"""


@pytest.fixture
def page(checkout: Path) -> Path:
    """The page of a dirty corpus, one of whose labels is a piece of HTML."""
    tickets.write(Path("tickets.csv"), "en", "utf-8", ";")
    with Path("tickets.csv").open("a", encoding="utf-8") as file:
        file.write(f"x;a text;{ATTACK}\r\n")
    Path("params.yaml").write_text(PARAMS, encoding="utf-8")
    ended = commands.bertline("check", "--page", "findings.html").require(1)
    assert "findings.html: 16 errors and 5 doubts are on the page" in ended.err
    return checkout / "findings.html"


@pytest.mark.slow
def test_the_page_has_every_finding_and_fits_a_phone(page: Path, open_tab: Callable[[], Tab]) -> None:
    tab = open_tab()
    tab.open(page.as_uri())
    findings = tab.texts("li")
    assert len(findings) == 21
    assert any("baseline.other.split: prepare.tickets makes no split 'dev'" in line for line in findings)
    assert sum("no label 'BUG'" in line for line in findings) == 4
    assert sum("line 51: 5 fields, the header has 3" in line for line in findings) == 1
    assert any("line 460: no label 'bugg' (did you mean 'bug'?)" in line for line in findings)
    assert any('no label "<script>docu' in line for line in findings)
    assert tab.value("document.title") == "bertline check"
    tab.size(360, 780)
    assert tab.value("document.documentElement.scrollWidth") == 360
    assert tab.problems(page.as_uri()) == []
    text = page.read_text(encoding="utf-8")
    assert not [word for word in ("<script", "http:", "https:", "src=", "@import") if word in text]


def test_malformed_params_and_missing_files_are_on_the_page(checkout: Path) -> None:
    Path("params.yaml").write_text("prepare: {a: {corpus: custom, sources: a.csv}}\n")
    commands.bertline("check", "--page", "a.html").require(1)
    assert "prepare.a.source: missing" in Path("a.html").read_text()
    Path("params.yaml").write_text("prepare: {a: {corpus: custom, source: a.csv}}\n")
    commands.bertline("check", "--page", "a.html").require(1)
    assert "a.csv: no such file or folder" in Path("a.html").read_text()


def test_clean_rows_have_a_page_without_errors(checkout: Path) -> None:
    rows = "".join(f"{text},{label}\n" for text, label in tickets.texts("en", 60))
    Path("a.csv").write_text(f"text,label\n{rows}")
    Path("params.yaml").write_text("prepare: {a: {corpus: custom, source: a.csv}}\n")
    ended = commands.bertline("check", "--page", "a.html").require(0)
    assert ended.out == "a.html: 0 errors and 0 doubts are on the page\n"
    assert not Path("artifacts").exists()
