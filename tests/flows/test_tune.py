"""tune: what it tries, what it refuses, and that a search cut off by a kill goes on."""

import re
import shutil
import sqlite3
import subprocess
from contextlib import chdir, closing
from pathlib import Path

import psutil
import pytest
import yaml

from flows.tune import tune as search
from pipelines.core import params
from pipelines.core.errors import UsageError
from pipelines.entries.finetune import Finetune
from pipelines.entries.tune import Tune
from pipelines.search import param_search
from pipelines.stages import encode, prepare
from tests.support import commands, json_answers, servers, tiny
from tests.support.places import ROOT

pytestmark = pytest.mark.slow
ENTAILMENT = {
    "corpus": "custom",
    "source": str(ROOT / "samples/entailment"),
    "kind": "pair",
    "files": {"train": "train.tsv", "dev": "dev.tsv", "test": "dev.tsv"},
    "columns": {"text": "sentence1", "text_pair": "sentence2", "id": "index"},
}
TRAINED = {"data": "entailment", "encoder": "encoder", "epochs": 1, "max_train_rows": 32, "evaluations": 2}
SEARCH = {
    "learning_rate": {"low": 1e-4, "high": 1e-2, "log": True},
    "epochs": [1, 2],
    "seed": {"low": 1, "high": 9},
}
PARAMS = {
    "prepare": {"entailment": ENTAILMENT},
    "encode": {"entailment": {"task": "entailment", "vocab": "encoder", "max_length": 32}},
    "finetune": {"it": TRAINED},
    "evaluate": {"it": {"task": "entailment"}},
    "tune": {"it": {"search": SEARCH, "trials": 3}},
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The encoded rows and the encoder, once for all tests."""
    folder = tmp_path_factory.mktemp("tune")
    tiny.encoder(folder / "encoder", japanese=False)
    (folder / "params.yaml").write_text(yaml.safe_dump(PARAMS, sort_keys=False))
    with chdir(folder):
        prepare.main("entailment")
        encode.main("entailment")
    return folder


@pytest.fixture
def encoded(prepared: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    shutil.copytree(prepared, checkout, dirs_exist_ok=True)
    return checkout


def change(**tune: object) -> None:
    values = {**PARAMS, "tune": {"it": {**PARAMS["tune"]["it"], **tune}}}  # type: ignore[index]
    Path("params.yaml").write_text(yaml.safe_dump(values, sort_keys=False))


def finished() -> int:
    """Trials with a score; none before there is a database."""
    return _count("trial_values")


def underway() -> int:
    """Trials that have begun and have not ended."""
    return _count("trials where state = 'RUNNING'")


def _count(rows: str) -> int:
    if not Path("state/tuning/it.db").exists():
        return 0
    with closing(sqlite3.connect("state/tuning/it.db")) as database:
        try:
            return database.execute(f"select count(*) from {rows}").fetchone()[0]
        except sqlite3.OperationalError:
            return 0


def test_a_search_ends_with_a_table_a_picture_and_the_best(encoded: Path) -> None:
    done = commands.bertline("tune it").require(0)
    table = Path("artifacts/tuning/it/trials.md").read_text().splitlines()
    assert table[0] == "| trial | learning_rate | epochs | seed | accuracy |"
    assert len(table) == 5
    scores = [float(line.split("|")[-2]) for line in table[2:]]
    assert scores == sorted(scores, reverse=True)
    best = yaml.safe_load(done.out[done.out.index("learning_rate:") :])
    assert best["epochs"] in (1, 2)
    assert 1e-4 <= best["learning_rate"] <= 1e-2
    assert "<svg" in Path("artifacts/tuning/it/index.html").read_text()
    assert not list(Path("state/tuning").glob("tmp*"))

    change(trials=4)  # one more, and the others are not tried again
    answer = json_answers.require_keys("tune", commands.bertline("tune it --json").require(0).out)
    assert len(answer["trials"]) == 4
    assert set(answer["best"]) == set(SEARCH)
    assert finished() == 4
    shown = yaml.safe_load(Path("params.yaml").read_text())
    shown["finetune"]["it"] |= best
    Path("params.yaml").write_text(yaml.safe_dump(shown, sort_keys=False))
    commands.bertline("check").require(0)


def test_a_killed_search_goes_on(encoded: Path) -> None:
    change(search={"learning_rate": [1e-4, 1e-3, 1e-2], "epochs": [1, 300]}, sampler="grid")
    with commands.started("tune it", stderr=subprocess.DEVNULL) as running:
        servers.wait_until(lambda: finished() and underway(), "no second trial begins")
        for process in (psutil.Process(running.pid), *psutil.Process(running.pid).children(recursive=True)):
            process.kill()
    before = finished()
    assert 1 <= before < 3
    commands.bertline("tune it").require(0)
    assert finished() == 3
    rows = Path("artifacts/tuning/it/trials.md").read_text().splitlines()[2:]
    tried = {tuple(line.split("|")[2:4]) for line in rows}
    assert len(tried) == 3  # a grid tries nothing twice
    entry = params.entry("tune", "it", Tune)
    study = param_search.study("it", entry, params.entry("finetune", "it", Finetune))
    ended = [param_search.values(entry, trial.params) for trial in study.trials if trial.value is not None]
    assert sorted({values["epochs"] for values in ended}) == [1, 300]


def test_a_trial_that_cannot_be_trained_does_not_end_the_search(encoded: Path) -> None:
    change(search={"strategy": ["top_k"], "top_k": [1, 9]}, sampler="grid")
    commands.bertline("tune it").require(0)
    assert finished() == 1
    change(search={"strategy": ["top_k"], "top_k": [8, 9]}, sampler="grid")
    none = commands.bertline("tune it").require(1)
    assert "no trial of it could be trained; the last one: " in none.err


@pytest.mark.parametrize(
    ("tune", "sentence"),
    [
        ({"split": "test"}, "tune.it.split: evaluate.it scores test too"),
        ({"split": "train"}, "tune.it.split: no split 'train'; there are: dev, test"),
        ({"search": {"epoch": [1]}}, "tune.it.search: no key 'epoch' (did you mean 'epochs'?)"),
        ({"search": {"learning_rate": [0.001, "fast"]}}, "tune.it.search.learning_rate: 'fast'"),
        ({"search": {"learning_rate": {"low": 1, "high": 0.1}}}, "low 1 must be below high 0.1"),
        ({"sampler": "grid"}, "tune.it.search.learning_rate: a grid needs choices"),
    ],
)
def test_an_impossible_search_is_refused_before_it_begins(encoded: Path, tune: dict, sentence: str) -> None:
    change(**tune)
    with pytest.raises(UsageError, match=re.escape(sentence)):
        search.fn("it")
    assert not Path("state/tuning").exists()
