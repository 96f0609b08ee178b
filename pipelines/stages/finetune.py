"""finetune: an encoder and a head on one task, on Ray Train."""

import json
from functools import partial
from pathlib import Path

from pipelines.core import entries, json_file, params, paths, provenance, seeding, stage
from pipelines.core.progress import say
from pipelines.core.task import Task

Point = tuple[int, dict[str, float]]


def main(key: str) -> None:
    entry = params.entry("finetune", key, entries.Finetune)
    with paths.fresh_folder(paths.model(key)) as out:
        learn("finetune", key, entry, out)


def learn(stage_name: str, key: str, entry: entries.Finetune, out: Path) -> list[Point]:
    """Train as `entry` says and leave the model folder in `out`; returns the curve: (step, {name: number})."""
    import torch

    from pipelines.inference import watch
    from pipelines.models import folder, heads, lean
    from pipelines.text import tokenizer as text_tokenizer
    from pipelines.training import checks, losses, prefix, strategies
    from pipelines.training.batches import Encoded, RowBatches
    from pipelines.training.distributed import fitting

    data, encoder = paths.encoded(entry.data), Path(entry.encoder)
    task, tokenizer = Task.load(data), text_tokenizer.load(data / "tokenizer")
    checks.finetune(key, entry, task)
    folder.check_fit(encoder, tokenizer.vocab_size, json_file.mapping(data / "encoding.json")["max_length"])
    torch.manual_seed(seeding.derive(entry.seed, "head"))
    model = heads.for_task(encoder, task, entry.head, entry.pooling, entry.features)
    groups = partial(strategies.groups, params=entry)
    groups(model)  # freezes, so that what trains can be told before the work
    say(f"{stage_name} {key}: {strategies.describe(model)}")
    train = Encoded.read(data, task.train).sample(entry.max_train_rows, entry.seed)
    batches = RowBatches(train, entry.batch_size, entry.epochs, entry.seed, tokenizer.pad_id)
    weights = losses.balanced(train.labels, model.config.num_labels) if entry.class_weights == "balanced" else ()
    loss = losses.for_kind(task.kind, entry.label_smoothing, weights)
    look = watch.on_split(data, entry.dev, task) if entry.dev else None
    curve: list[Point] = []
    resources, place = params.resources(), Path("state/prefix") / key
    with fitting(stage_name, key, resources) as fit:
        with (
            prefix.taken_off(model, batches, place, resources, look) as (inputs, watching),
            lean.steps(model, task.kind, train.ids, tokenizer.pad_id),
        ):
            select = task.metric if look else ""
            fit(model, loss, inputs, entry, groups, lambda *point: curve.append(point), watching, select)
        folder.save(model, out, data / "tokenizer", task)
        (out / "training.json").write_text(json.dumps({"steps": len(batches), "curve": curve}) + "\n")
        provenance.write(out, "finetune", entry.model_dump(), [data, encoder], ("torch", "transformers"))
    return curve


if __name__ == "__main__":
    stage.run("finetune", main)
