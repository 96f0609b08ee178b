"""`bertline card`: what the files and the ledger know of a model, in the form that Hugging Face reads."""

import json
import shutil
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import mlflow
import pytest
from huggingface_hub import ModelCard

from pipelines.core import paths
from pipelines.lifecycle import approval, version_card
from pipelines.stages import baseline, compress, encode, evaluate, finetune, prepare
from pipelines.tracking import ledger, registry
from tests.support import commands, tickets, tiny
from tests.support.places import CODE

pytestmark = pytest.mark.slow
PARAMS = """
resources: {workers: 0, threads: 1}
prepare: {rows: {corpus: custom, source: rows.csv, split: {test: 0.3}, language: ja}}
encode: {rows: {task: rows, vocab: e, max_length: 16}}
finetune: {desk: {data: rows, encoder: e, epochs: 1, batch_size: 16, learning_rate: 1.0e-3}}
compress: {small: {teacher: desk, data: rows, method: dynamic_int8}}
baseline: {words: {task: rows}}
evaluate: {desk: {task: rows, slices: {odd: "[13579]$"}, behaviour: {wide: {write: full_width}}}}
promote: {desk: {run: desk, intended_use: "Sort the tickets of a desk, which people read.", licence: apache-2.0}}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a tuned run, a compressed one and a baseline."""
    place = tmp_path_factory.mktemp("card")
    with chdir(place):
        Path("params.yaml").write_text(PARAMS)
        rows = [*tickets.texts("ja", 90), ("珍しい問い合わせ", "bug"), ("珍しい問い合わせ", "billing")]
        Path("rows.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
        tiny.of_family("modernbert", Path("e"))
        prepare.main("rows")
        encode.main("rows")
        baseline.main("words")
        finetune.main("desk")
        compress.main("small")
        evaluate.main("desk")
    return place


@pytest.fixture
def project(made: Path, checkout: Path) -> Iterator[Path]:
    shutil.copytree(made, checkout, dirs_exist_ok=True)
    yield checkout
    mlflow.set_tracking_uri(None)


def card(which: str) -> str:
    return commands.bertline("card", which).require(0).out


@pytest.mark.usefixtures("project")
def test_a_card_says_what_the_files_of_a_run_say() -> None:
    scores = json.loads(paths.metrics("desk").read_text())
    quality = json.loads((paths.rows("rows") / "quality.json").read_text())["splits"]
    text = card("desk")
    read = ModelCard(text).data
    assert (read.language, read.license, read.pipeline_tag) == ("ja", "apache-2.0", "text-classification")
    assert read.tags == ["bertline", "single", "modernbert"]
    (result,) = read.eval_results
    assert (result.dataset_name, result.dataset_type, result.dataset_split) == ("rows", "custom", "test")
    assert result.metric_value == round(scores["metrics"]["accuracy"], 4)
    words = json.loads(paths.metrics("words").read_text())
    low, high = scores["interval"]
    for sentence in [
        "Labels: `billing`, `bug`, `how-to`.",
        f"{scores['model']['parameters']:,} parameters, {scores['model']['size_bytes'] / 1e6:.1f} MB, sequences of at",
        "Sort the tickets of a desk, which people read.",
        "Corpus `custom` from `rows.csv`, prepared as `rows`; licence: not declared.",
        f"| all rows | {quality['train']['rows']} | {quality['test']['rows']} |",
        "have another label than an earlier row with their text",
        "- The encoder was `e`.",
        f"| **desk** | {scores['metrics']['accuracy']:.3f} | {low:.3f} to {high:.3f} |",
        f"| words (baseline) | {words['metrics']['accuracy']:.3f} |",
        "| wide | ",
        f"cut; so were {scores['truncated']} of the {scores['rows']} rows",
        "Its rows are in the language `ja`; others were not measured.",
        "- It read `artifacts/encoded/rows`, sha256 `",
    ]:
        assert sentence in text
    weak = {part["slice"] for part in scores["slices"] if part["score"] < low}
    assert {part["slice"] for part in scores["slices"] if f"| {part['slice']} | " in text} == weak
    facts = json.loads(commands.bertline("card", "desk", "--json").require(0).out)
    assert facts["evaluation"]["metrics"] == scores["metrics"]


def test_files_that_are_of_another_model_or_of_other_rows_do_not_count(project: Path) -> None:
    compressed = card("small")
    assert "Stage compress: `data: rows, method: dynamic_int8, seed: 1, teacher: desk`" in compressed
    assert "Stage finetune: `" in compressed
    assert "No file here has its scores." in compressed
    assert "model-index" not in compressed
    assert "None is declared: `intended_use`" in compressed
    provenance = paths.model("desk") / "provenance.json"
    provenance.write_text(provenance.read_text().replace('"epochs": 1', '"epochs": 2'))
    (paths.encoded("rows") / "provenance.json").unlink()
    text = card("desk")
    assert "The rows that it learned from are not here any more as they were." in text
    assert "No file here has its scores." in text
    assert "accuracy" not in text
    assert "words: a baseline has no model, and so no card" in commands.bertline("card", "words").require(2).err
    shutil.rmtree(paths.model("small"))
    assert "no such model yet; `bertline run" in commands.bertline("card", "small").require(2).err


def test_a_card_of_a_version_names_who_decided(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTLINE_ACTOR", "ann")
    wrote = {"stage": "finetune@desk", "read": {}, "wrote": {"artifacts/models/desk": "0" * 32}}
    finding = {"rule": "at_least", "found": 0.5, "asked": 0.1, "passed": True, "sentence": "accuracy 0.5, enough"}
    tags = {"run": "desk", "git_commit": "c" * 40, "md5": "0" * 32, "lineage": json.dumps([wrote])}
    tags["verdict"] = json.dumps({"passed": True, "findings": [finding]})
    version = registry.register("desk", paths.model("desk"), CODE, "single", {"text": "犬"}, tags)
    approval.approve("desk", version.version, "read 20 rows")
    ledger.append("desk", ledger.read("desk"), "promote", version.version, "the first | version")
    text = card("desk@champion")
    assert card("desk@1") == text
    for sentence in [
        "# desk version 1\n",
        "- Approved by ann at ",
        ": promote by ann: the first \\| version.",
        "- It is the champion.",
        "- The gate: passed: accuracy 0.5, enough.",
        f"- Commit: {'c' * 40}\n",
        f"- Before it: `artifacts/models/desk`, md5 `{'0' * 32}`",
        "| words (baseline) | ",
    ]:
        assert sentence in text
    shutil.rmtree("artifacts")
    Path("params.yaml").unlink()
    elsewhere = card("desk")
    assert "# desk version 1\n" in elsewhere
    assert "No file here has its scores; the gate measured what stands below." in elsewhere
    assert "licence" not in elsewhere
    assert "no alias 'best'" in commands.bertline("card", "desk@best").require(1).err
    assert "write a run, or a model as NAME" in commands.bertline("card", "desk@@1").require(2).err
    assert "no registered model 'dsk' (did you mean 'desk'?)" in commands.bertline("card", "dsk").require(1).err


def test_a_version_keeps_the_facts_of_its_registration(project: Path) -> None:
    folder, rules = paths.model("desk"), {"intended_use": "To sort tickets."}
    stored = version_card.tags(folder, "desk", rules)
    registry.register("desk", folder, CODE, "single", {"text": "犬"}, {"run": "desk", **stored})
    here = card("desk@1")
    shutil.rmtree("artifacts")
    Path("params.yaml").write_text("promote: {desk: {run: desk, licence: mit}}")
    elsewhere = card("desk@1")
    for sentence in ["| words (baseline) | ", "- The encoder was `e`.", "prepared as `rows`"]:
        assert sentence in here
        assert sentence in elsewhere
    assert "Sort the tickets of a desk, which people read." in here, "what params.yaml declares now counts"
    assert "To sort tickets." in elsewhere
    assert "license: mit" in elsewhere


ODD = ["x", "[]", '{"labels": 5}', '{"name": "other", "version": 9}']


@pytest.mark.parametrize("odd", ODD)
def test_facts_that_another_program_wrote_do_not_count(project: Path, odd: str) -> None:
    registry.register("desk", paths.model("desk"), CODE, "single", {"text": "犬"}, {"run": "desk", "card": odd})
    text = card("desk@1")
    assert "# desk version 1\n" in text
    assert "| words (baseline) | " in text


def test_facts_too_long_for_a_tag_are_left_out(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = json.loads(version_card.tags(paths.model("desk"), "desk", {})["card"])
    assert whole["evaluation"]["slices"]
    monkeypatch.setattr(version_card, "LONGEST", len(json.dumps(whole, ensure_ascii=False)) - 1)
    shorter = json.loads(version_card.tags(paths.model("desk"), "desk", {})["card"])
    assert shorter["evaluation"].keys() == whole["evaluation"].keys() - {"slices"}
    monkeypatch.setattr(version_card, "LONGEST", 10)
    assert version_card.tags(paths.model("desk"), "desk", {}) == {}
