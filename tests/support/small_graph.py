"""The graph of dvc.yaml on the samples, with small models; it runs once for all tests that read its results."""

import json
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from dvc.repo import Repo

from pipelines.graph import executor
from tests.conftest import SETTINGS, copy_project
from tests.support import once

TINY = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}


class Made(NamedTuple):
    """A repository in which the graph has run, and the stages that ran."""

    place: Path
    ran: list[str]


def made(places: pytest.TempPathFactory) -> Made:
    """The repository; tests must not write into it."""
    folder = once.made(places, "graph", _make)
    return Made(folder / "repository", json.loads((folder / "ran.json").read_text()))


def _make(folder: Path) -> None:
    place = folder / "repository"
    place.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        for name in SETTINGS:
            patch.delenv(name, raising=False)
        patch.chdir(place)
        copy_project(place)
        small(place / "params.yaml")
        Repo.init(no_scm=True).close()
        (folder / "ran.json").write_text(json.dumps(executor.run([])))


def small(file: Path) -> None:
    """Reduce the quickstart's graph to a tiny encoder, one run of each kind and few steps."""
    params = yaml.safe_load(file.read_text())
    params["prepare"]["bodies"] = params["prepare"]["headlines"] | {"task": "bodies"}
    params["encode"]["bodies"] = params["encode"]["headlines"] | {"task": "bodies"}
    vocab = {"rows": "bodies", "tokenizer": "mecab_wordpiece", "dictionary": "ipadic", "size": 2000}
    params["build_vocab"] = {"ja": vocab}
    fit = {"data": "bodies", "objective": "mlm", "epochs": 1, "learning_rate": 1e-3, "config": TINY}
    params["pretrain"] = {"tiny-ja": {**fit, "start": "encoders/shapes/modernbert.json"}}
    for section, names in {
        "prepare": ("headlines", "bodies"),
        "encode": ("headlines", "bodies"),
        "finetune": ("headlines", "headlines-frozen"),
        "compress": ("headlines-int8",),
        "baseline": ("headlines-svm",),
        "evaluate": ("headlines", "headlines-frozen", "headlines-int8"),
        "export": ("headlines",),
        "promote": ("headlines",),
    }.items():
        params[section] = {name: params[section][name] for name in names}
    for encoding in params["encode"].values():
        encoding["vocab"] = "artifacts/vocab/ja"
    for run in params["finetune"].values():
        run |= {"epochs": 1, "encoder": "artifacts/models/tiny-ja", "dev": "test"}
    file.write_text(yaml.safe_dump(params))
