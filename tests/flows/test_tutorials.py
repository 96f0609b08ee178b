"""The walks of docs/tutorials.md: names and answers, from files to promoted and served models that beat the baseline.

The files are smaller than those of a reader would be, and the models train less.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest

from tests.support import orders, walks
from tests.support.places import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
PAGE = "docs/tutorials.md"
ROWS = 200


@pytest.fixture
def home(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A home with sentences and questions."""
    orders.write_entities(Path("names.conll"), "en", ROWS)
    orders.write_questions(Path("faq.json"), "en", ROWS)
    walks.at_home(checkout, monkeypatch)
    yield
    mlflow.set_tracking_uri(None)


def walk(lines: list[str], name: str, epochs: int) -> dict[str, str]:
    """The outputs of the lines; the model has trained for `epochs`, and scores above its baseline."""
    output = {}
    for line in lines:
        output[line] = walks.run(line)
        if line.startswith("bertline new"):
            walks.train_less(epochs)
    scores = {run: json.loads(Path(f"artifacts/metrics/{run}.json").read_text()) for run in (name, f"{name}-baseline")}
    model, baseline = (metrics["metrics"][metrics["metric"]] for metrics in scores.values())
    assert model > baseline + 0.1
    assert output[f"bertline promote {name}"].endswith(f"{name} version 1 is the champion\n")
    return output


@pytest.mark.usefixtures("home")
def test_names_and_answers_from_files_to_a_service() -> None:
    lines = walks.commands_of(PAGE, "Names in texts")
    assert "place" in walk(lines, "names", 12)[lines[-1]]
    *learn, serve, ask = walks.commands_of(PAGE, "Answers to questions")
    assert "probability" in walk(learn, "faq", 12)[learn[-1]]
    assert walks.answer(serve, ask)["answer"] in ask


def test_each_tutorial_has_a_page_and_a_test() -> None:
    rows = re.findall(r"^\| .+ \| .+ \| (`tests.+) \|$", (ROOT / PAGE).read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == 7
    files = [file for row in rows for file in re.findall("`(tests.+?)`", row)]
    assert [file for file in files if not (ROOT / file).is_file()] == []
