"""bertline check follows every file, column and split that params.yaml names."""

import json
from pathlib import Path

import pytest
import yaml

from pipelines.core import paths
from pipelines.core.errors import UsageError
from pipelines.core.task import Task
from pipelines.data import references
from pipelines.graph import checking
from tests.support import commands

ROWS = "text,label\n" + "a,x\nb,y\n" * 4
GOOD = {
    "prepare": {
        "mail": {"corpus": "custom", "source": "mail", "files": {"train": "train.csv", "test": "test.csv"}},
        "later": {"corpus": "glue", "source": "artifacts/raw/glue", "task": "sst2"},
    },
    "import_weights": {"e": {"source": "e"}},
    "encode": {"mail": {"task": "mail", "vocab": "v", "max_length": 16}},
    "finetune": {"it": {"data": "mail", "encoder": "e"}},
    "evaluate": {"it": {"task": "mail"}},
    "baseline": {"svm": {"task": "mail"}},
}

HINT = "; `split: {test: 0.2}` under prepare.mail makes it of train"


@pytest.fixture
def place(checkout: Path) -> Path:
    (checkout / "mail").mkdir()
    for name in ("train.csv", "test.csv"):
        (checkout / "mail" / name).write_text(ROWS)
    return checkout


def complaints(**changes: dict[str, object]) -> list[str]:
    entries = yaml.safe_load(yaml.safe_dump(GOOD, sort_keys=False))
    for section, more in changes.items():
        entries.setdefault(section, {}).update(more)
    Path("params.yaml").write_text(yaml.safe_dump(entries, sort_keys=False))
    return list(references.complaints(checking.check()))


def mail(**changes: object) -> dict[str, object]:
    return {"mail": GOOD["prepare"]["mail"] | changes}


@pytest.mark.usefixtures("place")
def test_valid_references_give_no_complaint() -> None:
    assert complaints() == []
    assert (
        complaints(prepare={"theirs": {"corpus": "custom", "source": "artifacts/raw/x", "files": {"train": "a.csv"}}})
        == []
    )


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("prepare", "expected"),
    [
        (mail(source="mial"), ["prepare.mail.source: mial: no such file or folder"]),
        (mail(source="."), [f"prepare.mail.source: .: {references.OF_PROJECT}, such as mail, and name that"]),
        (
            mail(files={"train": "train.csv", "test": "tset.csv"}),
            ["prepare.mail.files.test: mail/tset.csv: no such file or folder"],
        ),
        (
            mail(files={"train": "train.csv"}),
            [
                "baseline.svm.split: prepare.mail makes no split 'test'; it makes train" + HINT,
                "evaluate.it.split: prepare.mail makes no split 'test'; it makes train" + HINT,
            ],
        ),
        (
            mail(files={"test": "test.csv"}),
            [
                "finetune.it.data: prepare.mail makes no split 'train'; it makes test",
                "baseline.svm.task: prepare.mail makes no split 'train'; it makes test",
            ],
        ),
        (mail(splits=["train", "dev"]), ["prepare.mail.splits: no split 'dev'; there are: test, train"]),
    ],
)
def test_a_dangling_reference_is_named(prepare: dict[str, object], expected: list[str]) -> None:
    lines = complaints(prepare=prepare)
    assert [line for line in lines if line in expected] == expected, lines


@pytest.mark.usefixtures("place")
def test_a_column_that_no_file_has_is_found_by_its_first_row() -> None:
    (line, other) = complaints(prepare=mail(columns={"text": "body"}))
    assert line.startswith("prepare.mail.files.train: mail/train.csv: ")
    assert "body" in line
    assert other.startswith("prepare.mail.files.test: ")


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("kind", "target"), [("tagging", "entities"), ("single", "label")])
def test_json_without_any_target_is_found(kind: str, target: str) -> None:
    """One record may lack it, and so may a file that is not the first: its rows have no labels then."""
    rows = [{"text": "a b", "tags": ["O", "O"]}] * 3
    labelled = {"text": "a b", target: [] if kind == "tagging" else "ham"}
    Path("mail/test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("mail/train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, labelled]))
    entry = mail(kind=kind, files={"train": "train.jsonl", "test": "test.jsonl"})
    assert [line for line in complaints(prepare=entry) if ".files." in line] == []
    Path("mail/train.jsonl").write_text(Path("mail/test.jsonl").read_text())
    (line,) = [line for line in complaints(prepare=entry) if ".files." in line]
    assert line.startswith(f"prepare.mail.files.train: mail/train.jsonl: no column '{target}'; ")


@pytest.mark.usefixtures("place")
def test_check_reports_all_complaints_at_once() -> None:
    assert complaints(prepare=mail(source="mial"), evaluate={"it": {"task": "mail", "split": "dev"}})
    refused = commands.bertline("check").require(2)
    lines = (refused.out + refused.err).splitlines()
    mark = "bertline: error: "
    assert f"{mark}params.yaml: prepare.mail.source: mial: no such file or folder" in lines
    assert f"{mark}params.yaml: evaluate.it.split: prepare.mail makes no split 'dev'; it makes train, test" in lines
    assert lines[-1] == f"{mark}2 findings in all"


@pytest.mark.usefixtures("place")
def test_check_prints_the_first_twenty_and_how_many_there_are() -> None:
    tuned = {f"it-{number}": {"data": "mail", "encoder": "e"} for number in range(25)}
    complaints(finetune=tuned, evaluate={name: {"task": "mail", "split": "dev"} for name in tuned})
    refused = commands.bertline("check").require(2)
    lines = (refused.out + refused.err).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "bertline: error: 25 findings; the first 20 are above"


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("section", "entry"),
    [
        ("finetune", {"data": "mail", "encoder": "e", "dev": "test"}),
        ("compress", {"data": "mail", "teacher": "it", "method": "pkd", "layers": 2, "dev": "test"}),
    ],
)
def test_the_split_that_chooses_the_weights_does_not_score_them(section: str, entry: dict[str, object]) -> None:
    scored = {"small": {"task": "mail", "split": "test"}}
    with pytest.raises(UsageError, match=rf"{section}\.small\.dev: test is the split that evaluate\.small scores"):
        complaints(**{section: {"small": entry}, "evaluate": scored})


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("kind", "form"),
    [("tagging", "conll"), ("span", "squad"), ("text", "folder"), ("regression", "csv"), ("choice", "parquet")],
)
def test_a_file_of_any_kind_and_format_that_is_not_there_is_named(kind: str, form: str) -> None:
    entry = {"corpus": "custom", "source": "mail", "kind": kind, "format": form, "files": {"train": "gone"}}
    assert complaints(prepare={"other": entry}) == ["prepare.other.files.train: mail/gone: no such file or folder"]


@pytest.mark.usefixtures("place")
def test_a_gate_names_slices_and_labels_that_there_are() -> None:
    evaluate = {"it": {"task": "mail", "slices": {"kyoto": "京都"}}}
    slices = {"kyoto": 0.5, "61 to 79 characters": 0.5, "osaka": 0.5}
    promote = {"desk": {"run": "it", "slices": slices, "classes": {"x": 0.5, "z": 0.5}}}
    declare = "promote.desk.slices.osaka: no slice 'osaka'; there are: kyoto; declare it in evaluate.it.slices"
    assert complaints(evaluate=evaluate, promote=promote) == [declare]
    rows = paths.rows("mail")
    rows.mkdir(parents=True)
    Task("mail", "single", ("x", "y"), "accuracy").save(rows)
    label = f"promote.desk.classes.z: {rows}: no label 'z'; there are: x, y"
    assert complaints(evaluate=evaluate, promote=promote) == [declare, label]
    assert "params.yaml: promote.desk.slices.osaka: no slice" in commands.bertline("check").require(2).err
