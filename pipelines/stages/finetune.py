"""finetune: an encoder and a head on one task, on Ray Train."""

import json
from functools import partial
from pathlib import Path

from pipelines.core import params, paths, provenance, schema, seeding, stage
from pipelines.core.progress import say
from pipelines.core.task import Task


def main(key: str) -> None:
    entry = params.entry("finetune", key, params.Finetune)
    import torch

    from pipelines.models import folder, heads
    from pipelines.text import tokenizer as text_tokenizer
    from pipelines.training import losses, strategies
    from pipelines.training.batches import Encoded, RowBatches
    from pipelines.training.distributed import fitting

    data, encoder = paths.encoded(entry.data), Path(entry.encoder)
    task, tokenizer = Task.load(data), text_tokenizer.load(data / "tokenizer")
    schema.check_trained(task.kind)
    folder.check_fit(encoder, tokenizer.vocab_size, json.loads((data / "encoding.json").read_text())["max_length"])
    torch.manual_seed(seeding.derive(entry.seed, "head"))
    model = heads.for_task(encoder, task, entry.head, entry.pooling, entry.features)
    groups = partial(strategies.groups, params=entry)
    groups(model)  # freezes, so that what trains can be told before the work
    say(f"finetune {key}: {strategies.describe(model)}")
    train = Encoded.read(data, task.splits[0])
    train = train.sample(entry.max_train_rows or len(train), entry.seed)
    batches = RowBatches(train, entry.batch_size, entry.epochs, entry.seed, tokenizer.pad_id)
    loss = losses.for_kind(task.kind, entry.label_smoothing)
    curve: list[tuple[int, dict[str, float]]] = []
    with fitting("finetune", key, params.resources()) as fit, paths.fresh_folder(paths.model(key)) as out:
        model = fit(model, loss, batches, entry, groups, report=lambda *point: curve.append(point))
        folder.save(model, out, data / "tokenizer", task)
        (out / "training.json").write_text(json.dumps({"steps": len(batches), "curve": curve}) + "\n")
        provenance.write(out, "finetune", entry.model_dump(), [data, encoder], ("torch", "transformers"))


if __name__ == "__main__":
    stage.run("finetune", main)
