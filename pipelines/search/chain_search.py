"""The search over chains of compression methods: which entries there are, and what each chain scores and costs."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pipelines.core import locks, params, paths, resources
from pipelines.core.errors import InputError
from pipelines.core.progress import say
from pipelines.entries.evaluate import Evaluate
from pipelines.evaluation import gates, one_answer
from pipelines.measurement import gate_measurements, interleaved, runtime_choice
from pipelines.reports import variants
from pipelines.search import chain_entries, chain_results, chains, gate_verdicts, ranking
from pipelines.search.chain_folder import ChainFolder, RunStage, name_of
from pipelines.search.chains import Budget, Chain, Tried
from pipelines.tracking import runs

ROUNDS = 3  # of latency, teacher and result in turn


def search(run: str, budget: Budget, run_stage: RunStage | None = None) -> chain_results.Searched:
    """Search the entries whose teacher is `run`, and chains of them; writes a page and a table of all that was tried.

    Args:
        run_stage: runs a stage of the search's folder; None runs it as it is.

    Raises:
        InputError: the teacher, its rows or every entry cannot be made.
    """
    entries = chain_entries.of_teacher(run)
    chain_entries.say_of_stricter_gates(run, budget)
    scored = params.entry("evaluate", run, Evaluate)
    with locks.claim_entry("compress-search", run), ExitStack() as until_end:
        chain_entries.say_power(run, scored, budget)
        further = chain_entries.made_from(entries)
        refused = chain_entries.reproduce(run, [*entries, *further], scored)
        chain_search = ChainSearch.of(run, entries, scored, budget, refused, until_end, run_stage)
        runtime = chain_search.teacher_runtime  # first of all, for if the teacher cannot be measured, nothing can
        methods = {name: entry["method"] for name, entry in entries.items()}
        tried = chains.search(methods, chain_search.attempt, budget)
        tried += [chain_search.attempt((name,)) for name in further]
        result = chain_search.result(tried, runtime)
        with paths.fresh_folder(paths.compression(run)) as out:
            chain_results.write(out, result)
        _log(result)
    return result


def _log(result: chain_results.Searched) -> None:
    """An MLflow run of the search, with its page and table; each chain has one of its own."""
    settings = {"max_loss": result.budget.max_loss, "target": result.budget.target}
    won = name_of(result.winner.chain) if result.winner else "none"
    numbers = {
        "tried": len(result.tried),
        "keep_the_budget": sum(attempt.keeps(result.budget) for attempt in result.tried),
    }
    runs.log(f"compress-table@{result.run}", {**settings, "winner": won}, numbers, {}, paths.compression(result.run))


def _require_something_learned(student: gates.Measured, teacher: gates.Measured) -> None:
    """Raise InputError if a model says the same of every row, and its teacher does not."""
    if (only_answer := one_answer.only(student.answers)) and not one_answer.only(teacher.answers):
        raise InputError(one_answer.sentence(only_answer[0], student.rows))


@dataclass(frozen=True)
class ChainSearch:
    """One search: its teacher, and the folder in which chains are made.

    Attributes:
        refused: names of entries that the graph could not make, each with the reason.
        until_end: what is closed when the search ends.
    """

    run: str
    scored: Evaluate
    budget: Budget
    teacher: gates.Measured
    folder: ChainFolder
    refused: Mapping[str, str]
    until_end: ExitStack

    @classmethod
    def of(
        cls,
        run: str,
        entries: Mapping[str, dict[str, Any]],
        scored: Evaluate,
        budget: Budget,
        refused: Mapping[str, str],
        until_end: ExitStack,
        run_stage: RunStage | None = None,
    ) -> "ChainSearch":
        usable = {name: entry for name, entry in entries.items() if name not in refused}
        folder = ChainFolder.of(run, usable, scored, until_end, run_stage)
        return cls(
            run, scored, budget, gate_measurements.measure(paths.model(run), scored, False), folder, refused, until_end
        )

    def result(self, tried: list[Tried], runtime: str) -> chain_results.Searched:
        """The search with its winner, and its teacher, which answers by `runtime`."""
        winner, verdicts, unfit = self.judged(tried)
        teacher = Tried((), self.teacher.value, 0.0, self.teacher.size_bytes, 1.0, 1.0, None, runtime)
        return chain_results.Searched(
            run=self.run,
            metric=self.teacher.metric,
            split=self.scored.split,
            budget=self.budget,
            teacher=teacher,
            tried=tried,
            winner=winner,
            entries=self.folder.new_entries(winner.chain, winner.runtime) if winner else {},
            gate=verdicts,
            unfit=unfit,
        )

    def attempt(self, chain: Chain) -> Tried:
        """Make the chain's model if it is not there, and measure it.

        Raises ReferenceEndedError if the teacher's process died, which is no fault of the chain.
        """
        try:
            attempt = self.measured(chain)
        except interleaved.ReferenceEndedError:
            raise
        except InputError as error:
            say(f"compress {self.run}: {name_of(chain)}: {error}")
            return Tried(chain, refused=str(error))
        logged = {"score": attempt.score, "loss_points": attempt.loss, "size_bytes": attempt.size_bytes}
        runs.log(f"compress-search@{self.run}", {"chain": name_of(chain)}, {"metrics": logged}, {})
        lost = f"{attempt.loss:+.2f} points lost at {attempt.size_share:.1%} of the bytes"
        say(f"compress {self.run}: {name_of(chain)}: {lost}")
        return attempt

    def measured(self, chain: Chain) -> Tried:
        """The score and the cost of a chain's model. Raises InputError if the model cannot be made or opened."""
        if chain[0] in self.refused:
            raise InputError(self.refused[chain[0]])
        folder = self.folder.made(chain)
        student = gate_measurements.measure(folder, self.scored, False)
        _require_something_learned(student, self.teacher)
        loss = variants.difference(self.teacher.value, student.value)
        most = variants.difference(0.0, -gates.most_lost(student, self.teacher, chains.SURE))
        share = student.size_bytes / self.teacher.size_bytes
        attempt = Tried(chain, student.value, loss, student.size_bytes, share, loss_most=most)
        if len(chain) > 1 and not attempt.keeps(self.budget):
            return attempt  # nobody asks how fast it is
        (median, least, greatest), runtime = self.latency(chain, folder)
        return replace(attempt, latency_share=median, latency_spread=(least, greatest), runtime=runtime)

    def latency(self, chain: Chain, folder: Path) -> tuple[interleaved.Spread, str]:
        """The latency of a row alone as a part of the teacher's, both by their faster runtimes; and which."""
        folders = self._runtimes(self.folder.run_of(chain), folder)
        faster = {name: self._reference.beside(opened, ROUNDS).faster for name, opened in folders.items()}
        runtime = max(faster, key=faster.__getitem__)
        median, least, greatest = faster[runtime]
        return (1 / median, 1 / greatest, 1 / least), runtime

    def _runtimes(self, name: str, folder: Path) -> dict[str, Path]:
        """By which runtimes a model may answer, with what each opens; by torch alone if it cannot be exported."""
        runtime_named = resources.read().runtime
        both = {"torch": folder}
        if runtime_named != "torch":
            try:
                both["onnx"] = self.folder.exported(name, folder)
            except InputError as error:
                say(f"compress {self.run}: {name}: measured with torch only: {error}")
        return {runtime_named: both[runtime_named]} if runtime_named in both else both

    @cached_property
    def teacher_runtime(self) -> str:
        """The runtime that would answer for the teacher."""
        folders = self._runtimes(self.run, paths.model(self.run))
        return runtime_choice.tags(paths.model(self.run), folders.get("onnx"), self._split, resources.read())["runtime"]

    @cached_property
    def _reference(self) -> interleaved.Reference:
        """The teacher by its faster runtime; it stays open until the search ends."""
        model = paths.model(self.run)
        faster = self.folder.exported(self.run, model) if self.teacher_runtime == "onnx" else model
        threads = resources.read().threads
        return self.until_end.enter_context(interleaved.opened(faster, self._split, threads, starts=1, seconds=1))

    @property
    def _split(self) -> Path:
        return paths.rows(self.scored.task) / f"{self.scored.split}.parquet"

    def judged(self, tried: list[Tried]) -> tuple[Tried | None, list[str], list[Chain]]:
        """The best that keeps the budget and that no gate of the teacher's promote entries refuses, None if none is.

        And what the gates say, a line each; and the chains that they refuse.
        """
        rules = chain_entries.gates_of(self.run)
        verdicts = [] if rules else [f"no promote entry has the run {self.run}, so no gate was checked"]
        unfit: list[Chain] = []
        candidates = [attempt for attempt in chains.best(tried, self.budget) if attempt.shows(self.budget)]
        while candidates:
            winner, compared = candidates[0], list[str]()
            if self.budget.target == "latency":
                winner, compared = ranking.fastest(candidates, self._opens, self._split, resources.read().threads)
            folder = self.folder.made(winner.chain)
            accepted, report = gate_verdicts.judge(winner, folder, self.teacher, self.scored, rules)
            verdicts += [*compared, *report]
            if accepted:
                return winner, verdicts, unfit
            unfit.append(winner.chain)
            candidates.remove(winner)
        return None, verdicts, unfit

    def _opens(self, tried: Tried) -> Path:
        """The folder that its faster runtime opens."""
        return self._runtimes(self.folder.run_of(tried.chain), self.folder.made(tried.chain))[tried.runtime]
