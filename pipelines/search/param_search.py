"""The search for better params of a finetune entry. Optuna draws them, `training.finetune_entry` trains.

Trials are kept in state/tuning/<run>.db, so an interrupted search goes on. The results are in artifacts/tuning/<run>.
"""

import hashlib
import itertools
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipelines.core import locks, params, paths, provenance, resources
from pipelines.core.errors import InputError, UsageError, choices
from pipelines.core.progress import say
from pipelines.core.task import Task
from pipelines.entries.evaluate import Evaluate
from pipelines.entries.finetune import Finetune
from pipelines.entries.tune import Range, Tune
from pipelines.reports import tuning_page
from pipelines.tracking import runs

Values = dict[str, Any]
RunTrial = Callable[[str, Finetune, str], float]  # (run, its entry, the metric) -> the score
STATE = Path("state/tuning")
REASON = "reason"  # why a trial has no score


def search(run: str, run_trial: RunTrial) -> tuning_page.Trials:
    """Run the trials that tune.<run> of params.yaml asks for; writes a table and a plot of them."""
    tuned = params.entry("tune", run, Tune)
    base = params.entry("finetune", run, Finetune)
    metric = _check(run, tuned, base)
    with locks.claim_entry("tune", run):
        trials = study(run, tuned, base)
        while _ended(trials) < _count(tuned):
            _try(run, trials, tuned, base, metric, run_trial)
    tried = [(values(tuned, trial.params), trial.value) for trial in trials.trials if trial.value is not None]
    if not tried:
        reasons = [trial.user_attrs[REASON] for trial in trials.trials if REASON in trial.user_attrs]
        raise InputError(f"no trial of {run} could be trained; the last one: {reasons[-1]}")
    result = tuning_page.Trials(run, metric, tuned.split, tried)
    with paths.fresh_folder(paths.tuning(run)) as out:
        (out / "index.html").write_text(tuning_page.html(result), encoding="utf-8")
        (out / "trials.md").write_text(tuning_page.markdown(result), encoding="utf-8")
    return result


def _try(run: str, trials: Any, search: Tune, base: Finetune, metric: str, run_trial: RunTrial) -> None:
    """Run one trial. If its params cannot be trained, or its loss is not finite, it fails and the search goes on."""
    from optuna.trial import TrialState

    trial_of_study = trials.ask()
    for name, among in search.search.items():
        _draw(trial_of_study, name, among)
    drawn = values(search, trial_of_study.params)
    try:
        score = run_trial(run, _entry(run, search, base, drawn), metric)
    except InputError as error:
        trial_of_study.set_user_attr(REASON, str(error))
        trials.tell(trial_of_study, state=TrialState.FAIL)
        say(f"tune {run}: trial {trial_of_study.number + 1}: {error}; with {drawn}")
        return
    trials.tell(trial_of_study, score)
    say(f"tune {run}: trial {trial_of_study.number + 1}: {metric} {score:.4f} with {drawn}")


def trial(run: str, entry: Finetune, metric: str) -> float:
    """Train once; returns the best score on the dev split."""
    from pipelines.training import finetune_entry

    key = f"{run}/{_digest(entry.model_dump_json())}"  # an interrupted trial finds its checkpoint
    STATE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=STATE) as out:
        curve = finetune_entry.finetune("tune", key, entry, Path(out) / "model", resources.read("tune", key))
    score = max(numbers[metric] for _, numbers in curve if metric in numbers)
    runs.log(f"tune@{run}", entry.model_dump(), {"metrics": {metric: score}}, {})
    return score


def _check(run: str, search: Tune, base: Finetune) -> str:
    """The task's metric. Raises UsageError, before the first trial, if the search cannot run."""
    rows_task = Task.load(paths.encoded(base.data))
    others = [split for split in rows_task.splits if split != rows_task.train]
    if search.split not in others:
        raise UsageError(f"params.yaml: tune.{run}.split: {choices('split', search.split, others)}")
    evaluated = (params.read().get("evaluate") or {}).get(run)
    if evaluated and search.split == Evaluate.model_validate(evaluated).split:
        raise UsageError(
            f"params.yaml: tune.{run}.split: evaluate.{run} scores {search.split} too, and "
            "params that were chosen on it would score too high; take another split"
        )
    for name, among in search.search.items():
        if search.sampler == "grid" and isinstance(among, Range):
            raise UsageError(f"params.yaml: tune.{run}.search.{name}: a grid needs choices, not a range")
        ends = [among.low, among.high] if isinstance(among, Range) else among
        for value in ends:
            _entry(run, search, base, {name: value})
    return rows_task.metric


def _entry(run: str, search: Tune, base: Finetune, changes: Values) -> Finetune:
    changed = {**base.model_dump(exclude_unset=True), **changes, "dev": search.split}
    return params.parse(Finetune, changed, f"tune.{run}.search")


def study(run: str, search: Tune, base: Finetune) -> Any:
    """The search in its database; trials of a process that has died are queued again."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    STATE.mkdir(parents=True, exist_ok=True)
    searched = search.model_dump_json(exclude={"trials"}) + base.model_dump_json()
    searched += provenance.digest(paths.encoded(base.data)) + provenance.digest(Path(base.encoder))
    trials = optuna.create_study(
        storage=f"sqlite:///{STATE / run}.db",
        study_name=_digest(searched),  # other params, data or weights make another study
        direction="maximize",
        load_if_exists=True,
    )
    for cut in trials.get_trials(states=[optuna.trial.TrialState.RUNNING]):
        trials.enqueue_trial(cut.system_attrs.get("fixed_params", cut.params))  # it may not have taken all of them
        trials.tell(cut.number, state=optuna.trial.TrialState.FAIL)
    if search.sampler == "grid":  # Optuna's own GridSampler stops a study, which is an error under ask and tell
        places = {name: range(len(among)) for name, among in search.search.items() if isinstance(among, list)}
        for combination in itertools.product(*places.values()):
            trials.enqueue_trial(dict(zip(places, combination, strict=True)), skip_if_exists=True)
    of = optuna.samplers.TPESampler if search.sampler == "tpe" else optuna.samplers.RandomSampler
    trials.sampler = of(seed=search.seed + len(trials.trials))
    return trials


def _ended(trials: Any) -> int:
    """The number of trials that have a score, or a reason why they have none; interrupted trials have neither."""
    return sum(trial.value is not None or REASON in trial.user_attrs for trial in trials.trials)


def _draw(trial_of_study: Any, name: str, among: Range | list[Any]) -> None:
    """Let Optuna draw a number from a range, or the index of a choice: it does not take choices that are lists."""
    if isinstance(among, list):
        trial_of_study.suggest_categorical(name, list(range(len(among))))
    elif isinstance(among.low, int) and isinstance(among.high, int):
        trial_of_study.suggest_int(name, among.low, among.high, log=among.log)
    else:
        trial_of_study.suggest_float(name, among.low, among.high, log=among.log)


def values(search: Tune, drawn: Values) -> Values:
    """The params of finetune for the numbers and indices that Optuna drew."""
    every = ((name, search.search[name], value) for name, value in drawn.items())
    return {name: among[value] if isinstance(among, list) else value for name, among, value in every}


def _count(search: Tune) -> int:
    """The number of trials; a grid has at most one for each combination."""
    grid = math.prod(len(among) for among in search.search.values() if isinstance(among, list))
    return min(search.trials, grid) if search.sampler == "grid" else search.trials


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
