"""pretrain: teach an encoder a language, from random weights or further from a model folder."""

import json
from functools import partial
from pathlib import Path

from pipelines.core import entries, json_file, params, paths, plugins, provenance, stage
from pipelines.core.progress import say


def main(key: str) -> None:
    entry = params.entry("pretrain", key, entries.Pretrain)
    objective = plugins.load("pipelines.objectives", entry.objective)
    options = params.options(entry, objective.Params, f"pretrain.{key}")
    from pipelines.models import folder, pretrained, side_by_side
    from pipelines.text import tokenizer as text_tokenizer
    from pipelines.training import losses
    from pipelines.training.corruption import CorruptedBatches
    from pipelines.training.distributed import fitting

    data, start = paths.encoded(entry.data), Path(entry.start)
    tokenizer = text_tokenizer.load(data / "tokenizer")
    objective.check(pretrained.family(start))
    model = pretrained.start(start, entry.config, objective.auto(options), tokenizer, entry.seed)
    folder.check_length(model.config.to_dict(), start, json_file.mapping(data / "encoding.json")["max_length"])
    batches = partial(CorruptedBatches, objective, options, data, tokenizer, entry)
    train, watch = batches(), None
    if (data / "test.parquet").is_file():
        held_out = batches(held_out=True)
        watch = partial(losses.held_out, batches=held_out, predict=objective.predict)
    say(f"pretrain {key}: {len(train):,} steps, {train.padding:.1%} of their tokens are padding")
    curve: list[tuple[int, dict[str, float]]] = []
    with fitting("pretrain", key, params.resources()) as fit, paths.fresh_folder(paths.model(key)) as out:
        around = objective.around(model, options)
        loss = losses.Pretraining(objective.predict)
        with side_by_side.rows(model):
            fit(around, loss, train, entry, report=lambda *point: curve.append(point), watch=watch)
        folder.save(model, out, data / "tokenizer")
        (out / "training.json").write_text(json.dumps({"steps": len(train), "curve": curve}) + "\n")
        provenance.write(out, "pretrain", entry.model_dump(), [data, start], ("torch", "transformers"))
    parameters = sum(p.numel() for p in model.parameters())
    facts = {"run": key, "objective": entry.objective, "parameters": parameters, "padding": train.padding}
    with paths.fresh_file(paths.metrics(key)) as aside:
        aside.write_text(
            json.dumps(facts | {"metrics": curve[-1][1], "curve": curve}, indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    stage.run("pretrain", main)
