"""bertline compress: on a real graph, what it makes, and what it names."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from transformers import AutoModel

from pipelines.checkpoints import pretrained
from pipelines.core import paths, provenance
from pipelines.text import tokenizer
from pipelines.tracking import store
from tests.support import commands, endings, tiny
from tests.support.places import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
TUNED = {"teacher": "it", "data": "entailment", "epochs": 1, "batch_size": 16, "learning_rate": 5e-4}
PARAMS = {
    "resources": {"threads": 1, "runtime": "torch"},
    "ingest": {},
    "prepare": {
        "entailment": {
            "corpus": "custom",
            "source": "samples/entailment",
            "kind": "pair",
            "files": {"train": "train.tsv", "test": "dev.tsv"},
            "columns": {"text": "sentence1", "text_pair": "sentence2", "id": "index"},
        }
    },
    "build_vocab": {},
    "import_weights": {},
    "encode": {"entailment": {"task": "entailment", "vocab": "encoders/mini-en", "max_length": 64}},
    "pretrain": {},
    "finetune": {"it": {"data": "entailment", "encoder": "encoders/mini-en", "epochs": 1, "batch_size": 16}},
    "baseline": {},
    "compress": {
        "int8": {"teacher": "it", "data": "entailment", "method": "dynamic_int8"},
        "half": {**TUNED, "method": "drop_layers", "layers": 2},
        "short": {"teacher": "it", "data": "entailment", "method": "prune_vocab"},
        "too-many": {**TUNED, "method": "drop_layers", "layers": 50},
    },
    "evaluate": {name: {"task": "entailment"} for name in ("it", "int8", "half", "short", "too-many")},
    "export": {},
    "promote": {"entailment": {"run": "it", "at_least": 0.1, "may_lose": 0.9}},
}

SEARCH = ("compress", "it", "--max-loss", "90", "--width", "1")  # the smallest is taken, whatever it scores
CAN_SHOW = "24 rows can show a loss of at most 90 points, 95% sure"


def bertline(*arguments: str, status: int = 0) -> str:
    ended = commands.bertline(*arguments).require(status)
    return ended.out + ended.err


@pytest.fixture
def graph(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("BERTLINE_QUIET", "")
    write()
    encoder(workspace / "encoders/mini-en")
    for name, rows in ("train.tsv", 48), ("dev.tsv", 24):
        file = workspace / "samples/entailment" / name
        file.write_text("".join(file.read_text().splitlines(keepends=True)[: rows + 1]))
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q", "--no-scm"], check=True)
    return workspace


def encoder(folder: Path) -> None:
    """Leave the folder its vocabulary, which is most of the model then, and put tiny layers in place of its own."""
    changes = tiny.SMALL["bert"] | {"num_hidden_layers": 4}
    model = pretrained.start(tiny.shape("bert", folder), changes, AutoModel, tokenizer.load(folder), seed=1)
    model.save_pretrained(folder)


def write(**changes: Any) -> None:
    Path("params.yaml").write_text(yaml.safe_dump({**PARAMS, **changes}, sort_keys=False))


def test_a_search_names_a_chain_and_what_makes_it(graph: Path) -> None:
    """It is killed when the first chain is made, and goes on from there."""
    before = made_until_killed()
    output = Path("output.txt").read_text()
    assert 0 < output.index(CAN_SHOW) < output.index("finetune@it: starts"), "before any model is made"
    output = bertline(*SEARCH)
    assert CAN_SHOW in output
    assert {file: when for file, when in chain_files().items() if file in before} == before != {}
    assert "short + half + int8 is the smallest chain that is at most" in output
    assert "the gate of entailment accepts short + half + int8 as champion in the teacher's place:" in output
    out = paths.compression("it")
    page = (out / "index.html").read_text()
    assert page.count("<svg") == 2
    table = (out / "table.md").read_text()
    assert table.index("| short + half + int8 |") < table.index("| it (the teacher) |")
    assert_told_why_not(table)
    assert_logged()
    assert_made_again_by_the_graph()
    assert_the_gate_may_refuse_the_fastest()


def made_until_killed() -> dict[str, int]:
    """Begin a search, and kill it, and nothing that it started, in a stage after a first chain; what was made by then.

    The stage ends with it.
    """
    with (
        Path("output.txt").open("w") as output,
        commands.started(*SEARCH, start_new_session=True, stdout=subprocess.DEVNULL, stderr=output) as search,
    ):
        started, deadline = psutil.Process(search.pid), time.monotonic() + 600
        stages: list[psutil.Process] = []
        while not stages and search.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
            warm = (
                [child for child in started.children() if "forkserver.main" in commands.line_of(child)]
                if chain_files()
                else []
            )
            stages = [stage for process in warm for stage in process.children()]
        search.kill()
    assert search.returncode == -signal.SIGKILL
    assert stages
    assert endings.alive_after(stages, 30) == []
    assert not paths.compression("it").exists()
    return chain_files()


def assert_told_why_not(table: str) -> None:
    """An entry that cannot be made ends nothing, and the stage's own sentence stands below the table."""
    (line,) = (line for line in table.splitlines() if line.startswith("| too-many |"))
    assert line.endswith("| not made |")
    assert re.search(r"^too-many was not made: .*layers: 50 to drop of", table, re.MULTILINE)


def assert_the_gate_may_refuse_the_fastest() -> None:
    """Each is measured by the runtimes that could serve it, and a search that the gate gives nothing has status 3."""
    names = ("it", "short")
    few = {"short": PARAMS["compress"]["short"]}
    strict = {"entailment": {"run": "it", "at_least": 0.9999, "may_lose": 0.9}}
    scored = {name: {"task": "entailment"} for name in names}
    write(resources={"threads": 1}, compress=few, evaluate=scored, promote=strict)
    search = ("compress", "it", "--max-loss", "90", "--target", "latency", "--steps", "1", "--trust-point")
    output = bertline(*search, status=3)
    assert CAN_SHOW not in output
    assert "the gate refuses every chain that is at most 90 points below it: 1 of 1 tried" in output
    assert output.count("the gate of entailment refuses ") == 1
    assert not (paths.compression("it") / "winner.yaml").exists()
    exported = Path("state/compressing").glob("*/artifacts/onnx/*/model.onnx")
    assert sorted(file.parent.name for file in exported) == sorted(names)
    lines = [line.split(" | ") for line in (paths.compression("it") / "table.md").read_text().splitlines()[2:]]
    assert len(lines) == 2
    assert {line[7] for line in lines} <= {"torch", "onnx"}


def chain_files() -> dict[str, int]:
    """Each file of the chains that are made, and when it was written. Links go to entries, and a dot is of a half."""
    folders = Path("state/compressing").glob("*/artifacts/models/[!.]*")
    files = [file for folder in folders if not folder.is_symlink() for file in folder.iterdir()]
    return {str(file): file.stat().st_mtime_ns for file in files}


def assert_made_again_by_the_graph() -> None:
    """With the entries that the search named, `bertline run` makes the winner's very weights."""
    named = yaml.safe_load((paths.compression("it") / "winner.yaml").read_text())
    assert [*named["compress"]] == ["short--half", "short--half--int8"]  # `short` is an entry already
    Path("params.yaml").write_text(yaml.safe_dump({k: v | named.get(k, {}) for k, v in PARAMS.items()}))
    bertline("run", "evaluate@short--half--int8")
    (searched,) = Path("state/compressing").glob("*/artifacts/models/short--half--int8")
    assert weights(paths.model("short--half--int8")) == weights(searched) != {}


def weights(folder: Path) -> dict[str, str]:
    kinds = (".safetensors", ".onnx")
    return {file.name: provenance.digest(file) for file in folder.iterdir() if file.suffix in kinds}


def assert_logged() -> None:
    """Each chain that was tried has an MLflow run, and the search one with its page and table."""
    client = store.connect()
    runs = client.search_runs([experiment.experiment_id for experiment in client.search_experiments()], max_results=500)
    tried = {run.data.params["chain"] for run in runs if run.data.tags["stage"] == "compress-search@it"}
    assert tried == {"half", "int8", "short", "short--half", "short--int8", "short--half--int8"}
    (whole,) = (run for run in runs if run.data.tags["stage"] == "compress-table@it")
    assert whole.data.params["winner"] == "short--half--int8"
    shown = {file.path for file in client.list_artifacts(whole.info.run_id)}
    assert {"index.html", "table.md", "winner.yaml"} <= shown


def test_an_impossible_search_fails_in_one_sentence(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    Path("params.yaml").write_text(yaml.safe_dump({**PARAMS, "compress": {}}, sort_keys=False))
    (line,) = bertline("compress", "it", status=2).splitlines()
    assert line.startswith("bertline: error: params.yaml: no compress entry has the teacher it; ")
    (line,) = bertline("compress", "itt", status=2).splitlines()
    assert line.startswith("bertline: error: params.yaml: no finetune or compress entry 'itt'")
