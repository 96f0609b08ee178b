"""bertline compress: on a real graph, what it makes, and what it names."""

import subprocess
import sys
from pathlib import Path

import mlflow
import pytest
import yaml

from pipelines.core import paths, provenance
from tests.support.places import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
TUNED = {"teacher": "it", "data": "entailment", "epochs": 1, "batch_size": 16, "learning_rate": 5e-4}
PARAMS = {
    "resources": {"threads": 1},
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
    "finetune": {"it": {"data": "entailment", "encoder": "encoders/mini-en", "epochs": 2, "batch_size": 16}},
    "baseline": {},
    "compress": {
        "int8": {"teacher": "it", "data": "entailment", "method": "dynamic_int8"},
        "half": {**TUNED, "method": "drop_layers", "layers": 2},
        "short": {"teacher": "it", "data": "entailment", "method": "prune_vocab"},
        "none-left": {**TUNED, "method": "prune_magnitude", "sparsity": 0.9, "rewind": "encoder"},
    },
    "evaluate": {name: {"task": "entailment"} for name in ("it", "int8", "half", "short", "none-left")},
    "export": {},
    "promote": {"entailment": {"run": "it", "at_least": 0.1, "may_lose": 0.9}},
}


def bertline(*arguments: str, status: int = 0) -> str:
    done = subprocess.run([sys.executable, "-m", "flows.cli", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_search_names_a_chain_and_what_makes_it(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("BERTLINE_QUIET", "")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{workspace}/mlflow.db")
    Path("params.yaml").write_text(yaml.safe_dump(PARAMS, sort_keys=False))
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q", "--no-scm"], check=True)

    said = bertline("compress", "it", "--max-loss", "90")  # so that the smallest is taken, whatever it scores
    assert "short + half + int8 is the smallest of" in said
    assert "the gate of entailment accepts it as champion in the teacher's place:" in said
    out = paths.compression("it")
    page = (out / "index.html").read_text()
    assert page.count("<svg") == 2
    table = (out / "table.md").read_text()
    assert table.index("| short + half + int8 |") < table.index("| it (the teacher) |")
    assert_logged(workspace)

    found = made()
    bertline("compress", "it", "--max-loss", "90")
    assert made() == found  # nothing is made twice
    assert_made_again_by_the_graph()


def made() -> dict[str, int]:
    """Each file of the search's models, and when it was written."""
    files = Path("state/compressing").rglob("artifacts/models/*/*")
    return {str(file): file.stat().st_mtime_ns for file in files if not file.is_symlink()}


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


def assert_logged(workspace: Path) -> None:
    """Each chain that was tried has an MLflow run."""
    client = mlflow.MlflowClient(f"sqlite:///{workspace}/mlflow.db")
    runs = client.search_runs([each.experiment_id for each in client.search_experiments()], max_results=500)
    tried = [run.data.params["chain"] for run in runs if run.data.tags["stage"] == "compress-search@it"]
    alone, pairs = ["half", "int8", "none-left", "short"], ["short--half", "short--int8"]
    assert sorted(tried) == sorted([*alone, *pairs, "short--half--int8"])


def test_what_cannot_be_searched_is_one_sentence(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    Path("params.yaml").write_text(yaml.safe_dump({**PARAMS, "compress": {}}, sort_keys=False))
    (line,) = bertline("compress", "it", status=2).splitlines()
    assert line.startswith("bertline: params.yaml: no compress entry has the teacher it; ")
    (line,) = bertline("compress", "itt", status=2).splitlines()
    assert line.startswith("bertline: params.yaml: no finetune or compress entry 'itt'")
