"""Run one entry of pretrain: train an encoder with an objective on encoded text."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pipelines.checkpoints import folder, pretrained
from pipelines.core import params, paths, plugins, provenance
from pipelines.core.errors import UsageError
from pipelines.core.progress import say
from pipelines.core.resources import Resources
from pipelines.entries.pretrain import Pretrain
from pipelines.pretraining.corrupted_batches import CorruptedBatches
from pipelines.pretraining.packing import TooShortError
from pipelines.text import tokenizer as text_tokenizer
from pipelines.training import losses
from pipelines.training.batches import sizes
from pipelines.training.distributed import fitting
from pipelines.training.loop import Watch


def pretrain(key: str, entry: Pretrain, target: Path, resources: Resources) -> dict[str, Any]:
    """Train as `entry` says and write the model folder `target`; return the content of the metrics file."""
    objective = plugins.load("pipelines.objectives", entry.objective)
    options = params.options(entry, objective.Params, f"pretrain.{key}", **entry.shared())
    compares_rows = getattr(objective, "COMPARES_ROWS", False)
    if compares_rows:
        _require_one_worker(key, entry.objective, resources)
    data, start = paths.encoded(entry.data), Path(entry.start)
    tokenizer = text_tokenizer.load(data / "tokenizer")
    objective.check(pretrained.family(start))
    model = pretrained.start(start, entry.config, objective.auto(options), tokenizer, entry.seed)
    folder.check_length(model.config.to_dict(), start, sizes(data)[0])
    batches = partial(CorruptedBatches, objective, options, data, tokenizer, entry)
    train = batches()
    watch = _scores(key, batches, objective.predict) if (data / "test.parquet").is_file() else None
    say(f"pretrain {key}: {len(train):,} steps, {train.padding:.1%} of their tokens are padding")
    curve: list[tuple[int, dict[str, float]]] = []
    plugin = f"objectives/{entry.objective}"
    with fitting("pretrain", key, resources, provenance.digest(data), plugin) as fit, paths.fresh_folder(target) as out:
        around = objective.around(model, options)
        loss = losses.Pretraining(objective.predict, compares_rows)
        fit(around, loss, train, entry, report=lambda *point: curve.append(point), watch=watch)
        folder.save(model, out, data / "tokenizer")
        (out / provenance.TRAINING).write_text(json.dumps({"steps": len(train), "curve": curve}) + "\n")
        provenance.write(out, "pretrain", entry.model_dump(), [data, start], ("torch", "transformers"))
    parameters = sum(p.numel() for p in model.parameters())
    facts = {"run": key, "objective": entry.objective, "parameters": parameters, "padding": train.padding}
    return facts | {"metrics": curve[-1][1], "curve": curve}


def _require_one_worker(key: str, objective: str, resources: Resources) -> None:
    """Raise UsageError if there may be several workers: each would compare only its own rows of a batch."""
    workers = [resources.workers] if isinstance(resources.workers, int) else [*resources.workers]
    if max(workers) > 1:
        raise UsageError(
            f"params.yaml: resources.workers: {max(workers)}: {objective} compares the rows of a batch with one "
            f"another, so it runs on one worker; set resources.stages.pretrain@{key}.workers to 0"
        )


def _scores(key: str, batches: Callable[..., CorruptedBatches], predict: losses.Predict) -> Watch | None:
    """The scores on the split `test` during training; None, with a line that says so, if its text is too short."""
    try:
        return partial(losses.held_out, batches=batches(held_out=True), predict=predict)
    except TooShortError as error:
        say(
            f"pretrain {key}: split test: {error.reason}; the model trains without scores on held-out text; a larger "
            "held_out in the entry of prepare gives more of it"
        )
        return None
