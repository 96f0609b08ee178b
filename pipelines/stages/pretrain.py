"""pretrain: teach an encoder a language, from random weights or further from a model folder."""

import json
from functools import partial
from pathlib import Path

from pipelines.core import params, paths, plugins, provenance, stage


def main(key: str) -> None:
    entry = params.entry("pretrain", key, params.Pretrain)
    objective = plugins.load("pipelines.objectives", entry.objective)
    options = params.options(entry, objective.Params, f"pretrain.{key}")
    from pipelines.models import folder, pretrained
    from pipelines.text import tokenizer as text_tokenizer
    from pipelines.training.batches import Encoded
    from pipelines.training.corruption import CorruptedBatches
    from pipelines.training.distributed import fitting
    from pipelines.training.packing import PackedBatches

    data, start = paths.encoded(entry.data), Path(entry.start)
    tokenizer = text_tokenizer.load(data / "tokenizer")
    model = pretrained.start(start, entry.config, objective.MODEL, tokenizer, entry.seed)
    objective.check(model, tokenizer)
    length = json.loads((data / "encoding.json").read_text())["max_length"]
    packed = PackedBatches(
        Encoded.read(data, "train"),
        length,
        entry.batch_size,
        entry.epochs,
        entry.seed,
        tokenizer.cls_id,
        tokenizer.sep_id,
    )
    corrupt = partial(objective.corrupt, params=options, tokenizer=tokenizer)
    curve: list[tuple[int, float]] = []
    with fitting("pretrain", key, params.resources()) as fit, paths.fresh_folder(paths.model(key)) as out:
        batches = CorruptedBatches(packed, corrupt, entry.seed)
        model = fit(model, objective.loss, batches, entry, report=lambda step, loss: curve.append((step, loss)))
        folder.save(model, out, data / "tokenizer")
        (out / "training.json").write_text(json.dumps({"steps": len(batches), "loss": curve}) + "\n")
        provenance.write(out, "pretrain", entry.model_dump(), [data, start], ("torch", "transformers"))


if __name__ == "__main__":
    stage.run("pretrain", main)
