"""pretrain: train an encoder on text without labels, from random weights or from a model folder."""

from pipelines.core import json_file, params, paths, resources, stage
from pipelines.entries.pretrain import Pretrain


def main(key: str) -> None:
    entry = params.entry("pretrain", key, Pretrain)
    from pipelines.pretraining import pretrain_entry

    record = pretrain_entry.pretrain(key, entry, paths.model(key), resources.read("pretrain", key))
    json_file.write(paths.metrics(key), record)
    json_file.write(paths.scores(key), record["metrics"])


if __name__ == "__main__":
    stage.run("pretrain", main)
