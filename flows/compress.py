"""compress: search the compress entries of a teacher, and chains of them, under a budget of score.

Each chain is made by the stages themselves, in a folder of the search with params of its own. What is there is not made
again, so an interrupted search goes on.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from prefect import flow, task

from flows import dag
from flows.notices import HOOKS
from pipelines.compression import chains, searched
from pipelines.compression.chains import Budget, Chain, Tried
from pipelines.core import params, paths, provenance, stage
from pipelines.core.errors import InputError, UsageError, choices
from pipelines.core.progress import say
from pipelines.entries.compress import Compress
from pipelines.entries.evaluate import Evaluate
from pipelines.entries.promote import Promote
from pipelines.evaluation import gates
from pipelines.inference import in_turn, measured
from pipelines.tracking import runs

STATE = Path("state/compressing")
ROUNDS = 3  # of latency, teacher and result in turn


@flow(name="compress", timeout_seconds=7 * 24 * 3600, **HOOKS)
def compress(run: str, budget: Budget | None = None) -> searched.Searched:
    """Find the smallest or fastest model made from `run` that keeps the budget; writes a page of all that was tried."""
    budget = budget or Budget()
    entries = _entries(run)
    scored = params.entry("evaluate", run, Evaluate)
    with stage.alone("compress-search", run):
        dag.reproduce([*(f"compress@{name}" for name in entries), f"prepare@{scored.task}"])
        search = Search.of(run, entries, scored, budget)
        tried = chains.search({name: entry["method"] for name, entry in entries.items()}, search.attempt, budget)
        winner = next(iter(chains.best(tried, budget)), None)
        result = searched.Searched(
            run=run,
            metric=search.teacher.metric,
            split=scored.split,
            budget=budget,
            teacher=Tried((), search.teacher.value, 0.0, search.teacher.size_bytes, 1.0, 1.0),
            tried=tried,
            winner=winner,
            entries=search.new_entries(winner.chain) if winner else {},
            gate=search.verdict(winner.chain) if winner else [],
        )
        with paths.fresh_folder(paths.compression(run)) as out:
            searched.write(out, result)
    return result


def _entries(run: str) -> dict[str, dict[str, Any]]:
    """The compress entries whose teacher is `run`. Raises UsageError if there is none."""
    values = params.read()
    known = [*values.get("finetune", {}), *values.get("compress", {})]
    if run not in known:
        raise UsageError(f"params.yaml: {choices('finetune or compress entry', run, known)}")
    found = {name: entry for name, entry in values.get("compress", {}).items() if entry.get("teacher") == run}
    if not found:
        raise UsageError(
            f"params.yaml: no compress entry has the teacher {run}; a search tries the entries that there are, "
            "and params/compress-livedoor.yaml has one of every method"
        )
    for name in found:
        params.entry("compress", name, Compress)
    return found


@dataclass(frozen=True)
class Search:
    """One search: its teacher, and the folder in which chains are made."""

    run: str
    entries: Mapping[str, dict[str, Any]]
    scored: Evaluate
    budget: Budget
    teacher: gates.Measured
    place: Path

    @classmethod
    def of(cls, run: str, entries: Mapping[str, dict[str, Any]], scored: Evaluate, budget: Budget) -> "Search":
        """The folder is named after all that results depend on."""
        values = params.read()
        asked = json.dumps([dict(entries), scored.model_dump(), values.get("encode", {})], sort_keys=True)
        read = [provenance.digest(paths.model(run)), provenance.digest(paths.rows(scored.task))]
        place = STATE / f"{run}-{hashlib.sha256(' '.join([asked, *read]).encode()).hexdigest()[:12]}"
        place.mkdir(parents=True, exist_ok=True)
        return cls(run, entries, scored, budget, measured.measure(paths.model(run), scored, False), place)

    def attempt(self, chain: Chain) -> Tried:
        """Make the chain's model if it is not there, and measure it."""
        try:
            folder = self.made(chain)
        except InputError as error:
            say(f"compress {self.run}: {name_of(chain)}: {error}")
            return Tried(chain, refused=str(error))
        one = self.measured(chain, folder)
        say(f"compress {self.run}: {name_of(chain)}: {one.loss:+.2f} points lost at {one.size_share:.1%} of the bytes")
        return one

    def measured(self, chain: Chain, folder: Path) -> Tried:
        own = measured.measure(folder, self.scored, False)
        loss = 100 * (self.teacher.value - own.value)
        logged = {"score": own.value, "loss_points": loss, "size_bytes": own.size_bytes}
        runs.log(f"compress-search@{self.run}", {"chain": name_of(chain)}, {"metrics": logged}, {})
        share = own.size_bytes / self.teacher.size_bytes
        one = Tried(chain, own.value, loss, own.size_bytes, share)
        if not one.keeps(self.budget):
            return one  # nobody asks how fast it is
        return replace(one, latency_share=_latency(paths.model(self.run), folder, self.scored))

    def made(self, chain: Chain) -> Path:
        """The model folder of a chain. Raises InputError with the stage's own sentence if it cannot be made."""
        if len(chain) == 1:
            return paths.model(chain[0])
        target = self.place / paths.model(name_of(chain))
        if not target.is_dir():
            self.made(chain[:-1])
            self._link()
            values = {"resources": params.read().get("resources", {}), **self.entries_of(chain)}
            (self.place / params.FILE).write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
            for data in values["encode"]:
                if not (self.place / paths.encoded(data)).is_dir():
                    _stage(self.place, "encode", data)
            _stage(self.place, "compress", name_of(chain))
        return target

    def entries_of(self, chain: Chain) -> dict[str, dict[str, Any]]:
        """What params.yaml takes to make the chain: entries of encode, compress and evaluate."""
        every = params.read()["encode"]
        encode, compress, scored = {}, {}, {}
        teacher, shorter = self.run, ""
        for i, step in enumerate(chain, start=1):
            name, entry = name_of(chain[:i]), dict(self.entries[step])
            if shorter:
                data = name_of((entry["data"], shorter))
                encode[data] = {**every[entry["data"]], "vocab": str(paths.model(shorter))}
                entry["data"] = data
            compress[name] = {**entry, "teacher": teacher}
            scored[name] = self.scored.model_dump(exclude_unset=True)
            teacher = name
            if entry["method"] in chains.FIRST:
                shorter = name
        return {"encode": encode, "compress": compress, "evaluate": scored}

    def new_entries(self, chain: Chain) -> dict[str, dict[str, Any]]:
        """Those of `entries_of` that params.yaml has not."""
        known = params.read()
        found = self.entries_of(chain)
        return {
            section: {k: v for k, v in own.items() if k not in known.get(section, {})} for section, own in found.items()
        }

    def _link(self) -> None:
        """Let the stages find what they read: everything of the checkout that this search does not make."""
        for folder in (paths.ARTIFACTS / "rows", paths.ARTIFACTS / "vocab", Path("encoders")):
            _point(self.place / folder, folder)
        for made in ("models", "encoded"):
            for folder in (paths.ARTIFACTS / made).iterdir():
                _point(self.place / folder, folder)

    def verdict(self, chain: Chain) -> list[str]:
        """What the gate of `promote` would say of the chain's model with the teacher as champion; a line each."""
        of = [name for name, rules in params.read().get("promote", {}).items() if rules.get("run") == self.run]
        if not of:
            return []
        rules = params.entry("promote", of[0], Promote)
        own = measured.measure(self.made(chain), self.scored, rules.approval)
        decision = gates.decide(own, self.teacher, rules)
        said = "accepts" if decision.passed else "refuses"
        return [f"the gate of {of[0]} {said} it as champion in the teacher's place:", *decision.reasons]


def _point(link: Path, folder: Path) -> None:
    if not link.exists() and folder.exists():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(folder.resolve())


def _latency(teacher: Path, folder: Path, scored: Evaluate) -> float:
    """The median latency of a row alone as a part of the teacher's."""
    split = paths.rows(scored.task) / f"{scored.split}.parquet"
    both = {"teacher": teacher, "result": folder}
    found = in_turn.compare(both, split, rounds=ROUNDS, starts=1, seconds=1)
    return 1 / found["result"].faster[0]


@task
def _stage(place: Path, name: str, key: str) -> None:
    """Run a stage in the folder of the search. Raises InputError with its sentence if it fails."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", f"pipelines.stages.{name}", key]
    done = subprocess.run(command, cwd=place, env=environment, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise InputError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"{name} {key} was ended")


def name_of(chain: Chain) -> str:
    """The run of a chain: the entries' names, joined. Not by a dot, which DVC reads as a step into a mapping."""
    return "--".join(chain)
