"""The walks of docs/first-hour.md, in their order, in one project: exactly the commands; the model trains less.

What is `bertline` alone runs in this process, since its imports take longer than most commands.
"""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest
import yaml

from tests.support import tickets, walks

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
PAGE = "docs/first-hour.md"
EPOCHS = 1


@pytest.fixture
def home(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A home with a file of tickets, and one of those of March."""
    for name, rows, seed in (("tickets", 160, 1), ("march", 30, 5)):
        with Path(f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *tickets.texts("en", rows, seed)])
    walks.at_home(checkout, monkeypatch)
    yield
    mlflow.set_tracking_uri(None)


@pytest.mark.usefixtures("home")
def test_four_first_hours() -> None:
    engineer = iter(walks.commands_of(PAGE, "Data engineer"))
    output = {}
    for line in engineer:
        output[line] = walks.run(line)
        if line.startswith("bertline new"):
            train_less(Path("params.yaml"))
    assert "tickets-baseline" in output["bertline table"]
    assert "rows are added; train" in output["bertline add ~/march.csv --to tickets"]
    assert "tickets.csv" in output["bertline why prepare@tickets"]
    assert walks.run("git status --porcelain") == ""

    owner = {line: walks.run(line) for line in walks.commands_of(PAGE, "Model owner")}
    assert owner["bertline retrain tickets"] == "tickets version 1 is the challenger\n"
    promoted = owner['bertline promote tickets --reason "the first version"']
    assert promoted.endswith("tickets version 1 is the champion\n")
    assert "the first version" in owner["bertline history tickets"]

    serve, ask, *others = walks.commands_of(PAGE, "Application developer")
    answer = walks.answer(serve, ask)
    assert answer["label"] in tickets.LABELS
    for line in others:
        assert answer["label"] in walks.run(line)

    operator = {line: walks.run(line) for line in walks.commands_of(PAGE, "Operator")}
    assert "champion" in operator["bertline status"]
    assert Path("scored").is_dir()


def train_less(file: Path) -> None:
    """Train for fewer epochs, and accept a model that is below its baseline because of it."""
    walks.train_less(EPOCHS)
    text = file.read_text(encoding="utf-8")
    file.write_text(re.sub(r"at_least: 0\.0\b", "at_least: 0.0, beats: false", text), encoding="utf-8")
    params = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert params["finetune"]["tickets"]["epochs"] == EPOCHS
    assert params["promote"]["tickets"]["beats"] is False
